"""Durations that a backend reports, where they are plausible."""

import math

import orjson

from beacon_router.backends.errors import bad_payload
from beacon_router.backends.types import BackendResult

_NANOSECONDS = 9
"""Digits after the point; smaller values do not fit the column that stores seconds."""


def timed_result(output: object, metrics: object) -> BackendResult:
    reported: dict[str, object] = metrics if isinstance(metrics, dict) else {}
    try:
        text = orjson.dumps(output)
    except orjson.JSONEncodeError as error:  # nested too deep
        raise bad_payload(f"the output cannot be encoded: {error}") from error
    return BackendResult(text, _seconds(reported.get("load_s")), _seconds(reported.get("run_s")), reported)


def _seconds(value: object) -> float | None:
    """A number of seconds that can be averaged and stored, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(float(value), _NANOSECONDS) if math.isfinite(value) and value >= 0 else None
