"""The backend's own account of its seconds, where it gives one that can be true."""

import math


def seconds(value: object) -> float | None:
    """A number of seconds that can be used in averages, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def metrics_of(value: object) -> dict[str, object]:
    return {str(name): figure for name, figure in value.items()} if isinstance(value, dict) else {}
