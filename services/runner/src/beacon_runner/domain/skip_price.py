"""The price of a skip, by the length of the job. The prices are `[[skip_prices]]` in the configuration."""

from collections.abc import Mapping
from typing import Any

from beacon_config import BeaconConfig
from beacon_runner.domain.plan import execution_keys


def seconds_of(config: BeaconConfig, spec: Mapping[str, Any]) -> float:
    """The duration that the job requests, or the expected run time of its executions."""
    given = spec.get("input")
    if "steps" not in spec and isinstance(given, Mapping) and "duration" in given:
        return float(given["duration"])
    return sum(
        config.models[key.model].expected_run_s for key in execution_keys(spec) if key.model in config.models
    )


def skip_price(config: BeaconConfig, spec: Mapping[str, Any]) -> int:
    seconds = seconds_of(config, spec)
    fitting = (one.price for one in config.skip_prices if one.up_to_s is None or seconds <= one.up_to_s)
    return next(fitting)
