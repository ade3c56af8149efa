"""Problem documents of limits: the limit, its use, and when to repeat the request, if that can help."""

from collections.abc import Mapping

from beacon_contracts.problem import FieldProblem, Problem
from beacon_contracts.tiers import Tier
from beacon_http.problems import make_problem
from beacon_http.replies import Headers
from beacon_runner.domain.errors import BatchExceedsLimitError, LimitReachedError
from beacon_runner.domain.limits.job_quota import LimitReached, QuotaLimit
from beacon_runner.domain.limits.request_quota import LimitState
from beacon_runner.http.rate_limit_headers import rate_limit_headers

_CODES: Mapping[QuotaLimit, str] = {
    QuotaLimit.PENDING_JOBS: "pending_jobs_limit",
    QuotaLimit.JOBS_PER_HOUR: "jobs_per_hour_limit",
    QuotaLimit.IN_FLIGHT_EXECUTIONS: "in_flight_executions_limit",
    QuotaLimit.GPU_SECONDS_PER_DAY: "gpu_seconds_per_day_limit",
    QuotaLimit.QUEUE_SIZE: "queue_full",
    QuotaLimit.STORAGE_BYTES: "storage_limit",
}
_RULES: Mapping[QuotaLimit, str] = {
    QuotaLimit.PENDING_JOBS: "a user of tier {tier} may have {allowed} pending jobs",
    QuotaLimit.JOBS_PER_HOUR: "a user of tier {tier} may submit {allowed} jobs an hour",
    QuotaLimit.IN_FLIGHT_EXECUTIONS: "a user of tier {tier} may have {allowed} executions in unfinished jobs",
    QuotaLimit.GPU_SECONDS_PER_DAY: "a user of tier {tier} may use {allowed} GPU seconds a day (UTC)",
    QuotaLimit.QUEUE_SIZE: "the queue holds {allowed} jobs at most",
    QuotaLimit.STORAGE_BYTES: "the files of a user of tier {tier} may have {allowed} bytes",
}
_USES: Mapping[QuotaLimit, str] = {
    QuotaLimit.PENDING_JOBS: "you have {used}",
    QuotaLimit.JOBS_PER_HOUR: "you have {used}",
    QuotaLimit.IN_FLIGHT_EXECUTIONS: "you have {used}",
    QuotaLimit.GPU_SECONDS_PER_DAY: "you have used {used}",
    QuotaLimit.QUEUE_SIZE: "it has {used}",
    QuotaLimit.STORAGE_BYTES: "yours have {used}; delete some, or jobs that made them",
}
_NOT_RATES = (QuotaLimit.QUEUE_SIZE, QuotaLimit.STORAGE_BYTES)
TOO_LARGE = "batch_exceeds_limit"


def limit_reached(error: LimitReachedError) -> Problem:
    """The 429 of a submission."""
    reached, tier = error.reached, error.tier
    first = next(iter(reached.values()))
    detail = _sentence(first, tier)
    frees_in_s = [
        error.retry_after_s if limit.frees_in_s is None else limit.frees_in_s for limit in reached.values()
    ]
    return make_problem(
        429,
        _CODES[first.limit],
        f"{detail}, and this batch has {len(reached)}" if error.batch else detail,
        errors=[_field(index, limit, tier) for index, limit in reached.items()] if error.batch else None,
        retry_after_s=round(max(1.0, *frees_in_s), 1),
        limit_name=first.limit,
        limit=first.allowed,
        used=first.used,
        tier=tier,
    )


def limit_reached_headers(error: LimitReachedError) -> Headers:
    """Of the user's limits on jobs."""
    states = {
        limit.limit.replace("_", "-"): LimitState(limit.allowed, max(0, limit.allowed - limit.used))
        for limit in error.reached.values()
        if limit.limit not in _NOT_RATES
    }
    return rate_limit_headers(states)


def batch_exceeds_limit(error: BatchExceedsLimitError) -> Problem:
    """The 422 of a batch that a later request could not submit either."""
    exceeds, tier = error.exceeds, error.tier
    rule = _RULES[exceeds.limit].format(tier=tier, allowed=exceeds.allowed)
    detail = (
        f"{rule}, and this request has {exceeds.requested}: no wait makes room for it; "
        f"split it into requests of at most {exceeds.allowed}"
    )
    return make_problem(
        422,
        TOO_LARGE,
        detail,
        errors=[FieldProblem(field="jobs", message=f"may be {exceeds.allowed} at most", code=TOO_LARGE)],
        limit_name=exceeds.limit,
        limit=exceeds.allowed,
        batch_size=exceeds.requested,
        tier=tier,
    )


def _field(index: int, limit: LimitReached, tier: Tier) -> FieldProblem:
    return FieldProblem(field=f"jobs[{index}]", message=_sentence(limit, tier), code=_CODES[limit.limit])


def _sentence(limit: LimitReached, tier: Tier) -> str:
    sentence = f"{_RULES[limit.limit]}; {_USES[limit.limit]}"
    return sentence.format(tier=tier, allowed=limit.allowed, used=limit.used)
