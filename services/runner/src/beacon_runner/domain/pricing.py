"""The price of a skip, by the length of the job."""

from collections.abc import Mapping
from typing import Any

from beacon_config import BeaconConfig
from beacon_runner.domain.plan import places


def seconds_of(config: BeaconConfig, spec: Mapping[str, Any]) -> float:
    """The duration that the job requests, or the expected run time of its executions."""
    given = spec.get("input")
    if "steps" not in spec and isinstance(given, Mapping) and "duration" in given:
        return float(given["duration"])
    return sum(
        config.models[place.model].expected_run_s for place in places(spec) if place.model in config.models
    )


def skip_price(config: BeaconConfig, spec: Mapping[str, Any]) -> int:
    seconds = seconds_of(config, spec)
    fitting = (one.price for one in config.skip_prices if one.up_to_s is None or seconds <= one.up_to_s)
    return next(fitting)
