"""What a tier allows in one request: models, seconds and executions. The rules of jobs and of `/v1`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from beacon_config import BeaconConfig
from beacon_contracts.problem import FieldProblem
from beacon_contracts.tiers import Tier

DURATION = "duration"
DURATION_TOO_LONG = "duration_too_long"
MODEL_NOT_ALLOWED = "model_not_allowed"
TOO_MANY_EXECUTIONS = "executions_per_job_limit"


def request_problems(
    config: BeaconConfig, tier: Tier, model: str, body: Mapping[str, Any]
) -> list[FieldProblem]:
    """Of a body of `/v1`: the model must be allowed, and every duration in it within the limits."""
    return [
        *model_problems(config, tier, model, "model"),
        *duration_problems(config, tier, [model], durations(body)),
    ]


def model_problems(config: BeaconConfig, tier: Tier | None, model: str, field: str) -> Iterator[FieldProblem]:
    if tier is not None and model in config.models and not config.tiers[tier].allows(model):
        allowed = ", ".join(config.tiers[tier].models)
        message = f"tier {tier} may not use {model}; it may use {allowed}"
        yield FieldProblem(field=field, message=message, code=MODEL_NOT_ALLOWED)


def duration_problems(
    config: BeaconConfig, tier: Tier | None, models: Iterable[str], found: Mapping[str, Any]
) -> Iterator[FieldProblem]:
    """`found`: durations by field. `models`: those that receive them."""
    allowed_s = None if tier is None else config.tiers[tier].max_duration_s
    longest = {name: config.models[name].max_duration_s for name in models if name in config.models}
    for field, value in found.items():
        seconds = seconds_of(value)
        if seconds is None:
            message = "must be a positive number of seconds"
            yield FieldProblem(field=field, message=message, code="invalid")
            continue
        for model, longest_s in longest.items():
            if longest_s is not None and seconds > longest_s:
                message = f"{model} makes at most {longest_s:g} seconds"
                yield FieldProblem(field=field, message=message, code="too_long")
        if allowed_s is not None and seconds > allowed_s:
            message = f"tier {tier} may ask for at most {allowed_s:g} seconds"
            yield FieldProblem(field=field, message=message, code=DURATION_TOO_LONG)


def execution_problems(
    config: BeaconConfig, tier: Tier | None, total: int, field: str
) -> Iterator[FieldProblem]:
    """The limit of the tier, and the one of every job."""
    allowed = None if tier is None else config.tiers[tier].executions_per_job
    if allowed is not None and total > allowed:
        message = f"the job has {total} executions; tier {tier} may have {allowed} in one job"
        yield FieldProblem(field=field, message=message, code=TOO_MANY_EXECUTIONS)
    elif total > (most := config.limits.matrix_executions):
        message = f"questions by models by regions is {total}, one job may have at most {most}"
        yield FieldProblem(field=field, message=message, code="too_many")


def durations(body: Mapping[str, Any]) -> dict[str, Any]:
    """The durations in a body, by field: its own, and those of its `input` and `params`."""
    found = {DURATION: body[DURATION]} if body.get(DURATION) is not None else {}
    for place in ("input", "params"):
        inner = body.get(place)
        if isinstance(inner, Mapping) and inner.get(DURATION) is not None:
            found[f"{place}.{DURATION}"] = inner[DURATION]
    return found


def seconds_of(value: object) -> float | None:
    """A duration in seconds; None if it is no positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < float("inf") else None
