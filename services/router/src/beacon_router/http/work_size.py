"""The size of a request, from the field that its model's configuration names."""

from collections.abc import Mapping
from typing import Final

MAX_WORK_SIZE: Final = 1e12
"""Larger values are ignored as mistakes."""


def work_size(field: str | None, params: Mapping[str, object], given: Mapping[str, object]) -> float | None:
    """The larger of the sizes in the params and the input of a request; None if there is none."""
    if field is None:
        return None
    sizes = (size_of(params.get(field)), size_of(given.get(field)))
    return max((size for size in sizes if size is not None), default=None)


def size_of(value: object) -> float | None:
    """A number as it is, a text by its length; everything else is unknown."""
    if isinstance(value, str):
        value = len(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value <= MAX_WORK_SIZE else None
