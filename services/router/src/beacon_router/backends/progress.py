"""What backends report of a run, as `RunProgress`."""

import math
import re
from typing import Any

import jmespath

from beacon_config.mappings import ProgressMapping
from beacon_contracts.inference import RunProgress
from beacon_router.backends.expressions import found

MAX_MESSAGE_LENGTH = 200
MAX_PREVIEW_LENGTH = 65_536
_PREVIEW = re.compile(r"data:image/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}")
_BAR = re.compile(r"(\d{1,3})%\|[^|]*\|\s*")
"""A progress bar of tqdm, the most common one in the logs of models."""


class ProgressExpressions:
    """Finds the progress in a document of a backend."""

    def __init__(self, mapping: ProgressMapping) -> None:
        self._share = jmespath.compile(mapping.progress)
        self._percent = jmespath.compile(mapping.percent)
        self._message = jmespath.compile(mapping.message)
        self._preview = jmespath.compile(mapping.preview)

    def of(self, document: Any) -> RunProgress | None:
        return progress_of(
            share=found(self._share, document),
            percent=found(self._percent, document),
            message=found(self._message, document),
            preview=found(self._preview, document),
        )


def progress_of(
    *, share: object = None, percent: object = None, message: object = None, preview: object = None
) -> RunProgress | None:
    """`share` is from 0 to 1; values that are not usable are left out. None: nothing is left."""
    value = _number(percent)
    if value is None and (part := _number(share)) is not None:
        value = part * 100.0
    text = _last_line(message) if isinstance(message, str) else ""
    if bar := _BAR.search(text):
        value = float(bar[1]) if value is None else value
        text = text[: bar.start()] + text[bar.end() :]
    text = text.strip()[:MAX_MESSAGE_LENGTH]
    image = preview if isinstance(preview, str) and _is_preview(preview) else None
    if value is None and not text and image is None:
        return None
    return RunProgress(
        percent=None if value is None else round(min(100.0, max(0.0, value)), 1),
        message=text or None,
        preview=image,
    )


def _last_line(text: str) -> str:
    """The last one that is not empty. A progress bar begins its line anew with a carriage return."""
    last = next((line for line in reversed(re.split(r"[\r\n]+", text)) if line.strip()), "")
    return " ".join(last.replace("\x00", " ").split())


def _is_preview(text: str) -> bool:
    return len(text) <= MAX_PREVIEW_LENGTH and _PREVIEW.fullmatch(text) is not None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
