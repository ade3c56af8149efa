"""What backends report of a run, as `RunProgress`."""

import math

from beacon_contracts.inference import RunProgress

MAX_MESSAGE_LENGTH = 200


def progress_of(
    *, share: object = None, percent: object = None, message: object = None, preview: str | None = None
) -> RunProgress | None:
    """`share` is from 0 to 1; values that are not usable are left out. None: nothing is left."""
    value = _number(percent)
    if value is None and (part := _number(share)) is not None:
        value = part * 100.0
    text = ""
    if isinstance(message, str):
        text = " ".join(message.replace("\x00", " ").split())[:MAX_MESSAGE_LENGTH]
    if value is None and not text and preview is None:
        return None
    return RunProgress(
        percent=None if value is None else round(min(100.0, max(0.0, value)), 1),
        message=text or None,
        preview=preview,
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
