"""Limits as HTTP: which one was met, how much of it is used, and when to come back."""

from collections.abc import Mapping

from beacon_contracts.problem import FieldProblem
from beacon_contracts.tiers import Tier
from beacon_runner.domain.allowances import Limit, LimitReached
from beacon_web.problems import HttpProblemError

_WORDS: Mapping[Limit, tuple[str, str]] = {
    Limit.PENDING_JOBS: (
        "pending_jobs_limit",
        "a user of tier {tier} may have {allowed} pending jobs; you have {used}",
    ),
    Limit.JOBS_PER_HOUR: (
        "jobs_per_hour_limit",
        "a user of tier {tier} may submit {allowed} jobs an hour; you have {used}",
    ),
    Limit.QUEUE_SIZE: ("queue_full", "the queue holds {allowed} jobs at most; it has {used}"),
}


def refused(
    met: Mapping[int, LimitReached], tier: Tier, estimate_s: float, *, batch: bool
) -> HttpProblemError:
    """The 429 for the jobs that met limits, by their place; `estimate_s` where no better moment is known."""
    first = next(iter(met.values()))
    sentence = _sentence(first, tier)
    return HttpProblemError(
        429,
        _WORDS[first.limit][0],
        f"{sentence}, and this batch has {len(met)}" if batch else sentence,
        errors=[_field(place, limit, tier) for place, limit in met.items()] if batch else None,
        retry_after_s=round(max(1.0, *(_frees_in_s(limit, estimate_s) for limit in met.values())), 1),
        limit_name=first.limit,
        limit=first.allowed,
        used=first.used,
        tier=tier,
    )


def _frees_in_s(limit: LimitReached, estimate_s: float) -> float:
    return estimate_s if limit.frees_in_s is None else limit.frees_in_s


def _field(place: int, limit: LimitReached, tier: Tier) -> FieldProblem:
    return FieldProblem(field=f"jobs[{place}]", message=_sentence(limit, tier), code=_WORDS[limit.limit][0])


def _sentence(limit: LimitReached, tier: Tier) -> str:
    return _WORDS[limit.limit][1].format(tier=tier, allowed=limit.allowed, used=limit.used)
