"""The price of a skip, by the length of the job. The prices are `[[skip_prices]]` in the configuration."""

from collections.abc import Mapping
from typing import Any

from beacon_config import BeaconConfig
from beacon_runner.domain.execution.plan import execution_keys
from beacon_runner.domain.limits.tier_rules import durations, seconds_of


def skip_price(config: BeaconConfig, spec: Mapping[str, Any]) -> int:
    seconds = job_seconds(config, spec)
    fitting = (one.price for one in config.skip_prices if one.up_to_s is None or seconds <= one.up_to_s)
    return next(fitting)


def job_seconds(config: BeaconConfig, spec: Mapping[str, Any]) -> float:
    """The seconds that the job asks for, or the expected run time of its executions where it asks for none.

    A duration in `params` applies to each execution, one in `input` to the job.
    """
    of_input, of_each = _longest(spec, "input"), _longest(spec, "params")
    if "model" in spec and (of_input or of_each):
        return max(of_input, of_each)
    total_s = sum(
        of_each or config.models[key.model].expected_run_s
        for key in execution_keys(spec)
        if key.model in config.models
    )
    return max(total_s, of_input)


def _longest(spec: Mapping[str, Any], place: str) -> float:
    found = durations({place: spec.get(place)})
    return max((seconds_of(value) or 0.0 for value in found.values()), default=0.0)
