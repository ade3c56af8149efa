"""An answer with the backend's own account of its seconds, where it gives one that can be true."""

import math

import orjson

from beacon_router.backends.errors import bad_payload
from beacon_router.backends.types import Answer

_NANOSECONDS = 9
"""Digits. Nobody measures less, and what is all but nothing does not fit where seconds are stored."""


def measured(output: object, account: object) -> Answer:
    metrics: dict[str, object] = account if isinstance(account, dict) else {}
    load_s, run_s = _seconds(metrics.get("load_s")), _seconds(metrics.get("run_s"))
    return Answer(_json_text(output), load_s, run_s, metrics)


def _json_text(output: object) -> bytes:
    """As JSON text again; what is nested too deep to be written is no answer."""
    try:
        return orjson.dumps(output)
    except orjson.JSONEncodeError as error:
        raise bad_payload(f"the answer cannot be written: {error}") from error


def _seconds(value: object) -> float | None:
    """A number of seconds that can be used in averages and stored, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(float(value), _NANOSECONDS) if math.isfinite(value) and value >= 0 else None
