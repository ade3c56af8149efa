"""Limits as HTTP: which one was met, how much of it is used, and when to come back, if that can help."""

from collections.abc import Mapping

from beacon_contracts.problem import FieldProblem
from beacon_contracts.tiers import Tier
from beacon_http.problems import HttpProblemError
from beacon_runner.domain.quotas import Limit, LimitReached, OutOfReach

_CODES: Mapping[Limit, str] = {
    Limit.PENDING_JOBS: "pending_jobs_limit",
    Limit.JOBS_PER_HOUR: "jobs_per_hour_limit",
    Limit.QUEUE_SIZE: "queue_full",
}
_RULES: Mapping[Limit, str] = {
    Limit.PENDING_JOBS: "a user of tier {tier} may have {allowed} pending jobs",
    Limit.JOBS_PER_HOUR: "a user of tier {tier} may submit {allowed} jobs an hour",
    Limit.QUEUE_SIZE: "the queue holds {allowed} jobs at most",
}
_USES: Mapping[Limit, str] = {
    Limit.PENDING_JOBS: "you have {used}",
    Limit.JOBS_PER_HOUR: "you have {used}",
    Limit.QUEUE_SIZE: "it has {used}",
}
TOO_LARGE = "batch_exceeds_limit"


def refused(
    met: Mapping[int, LimitReached], tier: Tier, estimate_s: float, *, batch: bool
) -> HttpProblemError:
    """The 429 for the jobs that met limits, by their place; `estimate_s` where no better moment is known."""
    first = next(iter(met.values()))
    sentence = _sentence(first, tier)
    return HttpProblemError(
        429,
        _CODES[first.limit],
        f"{sentence}, and this batch has {len(met)}" if batch else sentence,
        errors=[_field(place, limit, tier) for place, limit in met.items()] if batch else None,
        retry_after_s=round(max(1.0, *(_frees_in_s(limit, estimate_s) for limit in met.values())), 1),
        limit_name=first.limit,
        limit=first.allowed,
        used=first.used,
        tier=tier,
    )


def to_be_split(never: OutOfReach, tier: Tier) -> HttpProblemError:
    """The 422 for a batch that would be refused tomorrow too: whoever waits for it waits for ever."""
    rule = _RULES[never.limit].format(tier=tier, allowed=never.allowed)
    detail = (
        f"{rule}, and this batch has {never.asked}: no wait makes room for it; "
        f"split it into batches of at most {never.allowed}"
    )
    return HttpProblemError(
        422,
        TOO_LARGE,
        detail,
        errors=[FieldProblem(field="jobs", message=f"may be {never.allowed} at most", code=TOO_LARGE)],
        limit_name=never.limit,
        limit=never.allowed,
        batch_size=never.asked,
        tier=tier,
    )


def _frees_in_s(limit: LimitReached, estimate_s: float) -> float:
    return estimate_s if limit.frees_in_s is None else limit.frees_in_s


def _field(place: int, limit: LimitReached, tier: Tier) -> FieldProblem:
    return FieldProblem(field=f"jobs[{place}]", message=_sentence(limit, tier), code=_CODES[limit.limit])


def _sentence(limit: LimitReached, tier: Tier) -> str:
    words = f"{_RULES[limit.limit]}; {_USES[limit.limit]}"
    return words.format(tier=tier, allowed=limit.allowed, used=limit.used)
