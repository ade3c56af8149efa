"""An answer with the backend's own account of its seconds, where it gives one that can be true."""

import math

import orjson

from beacon_router.backends.calls import Answer


def measured(output: object, account: object) -> Answer:
    metrics = {str(name): figure for name, figure in account.items()} if isinstance(account, dict) else {}
    return Answer(
        output=orjson.dumps(output),
        load_s=_seconds(metrics.get("load_s")),
        run_s=_seconds(metrics.get("run_s")),
        metrics=metrics,
    )


def _seconds(value: object) -> float | None:
    """A number of seconds that can be used in averages, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
