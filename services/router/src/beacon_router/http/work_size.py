"""How large a request is, by the field that its model's configuration names."""

from collections.abc import Mapping
from typing import Final

from beacon_config.topology import ModelConfig

LARGEST: Final = 1e12
"""Beyond this it is no size but a mistake."""


class Sizes:
    def __init__(self, models: Mapping[str, ModelConfig]) -> None:
        self._fields = {name: model.size for name, model in models.items() if model.size is not None}

    def of(self, model: str, params: Mapping[str, object], given: Mapping[str, object]) -> float | None:
        """What a request says of its size in its params or its input; None: nothing that counts."""
        field = self._fields.get(model)
        if field is None:
            return None
        return size_of(params[field] if field in params else given.get(field))


def size_of(value: object) -> float | None:
    """A number counts as it is, a text by its length, and all else as unknown."""
    if isinstance(value, str):
        value = len(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value <= LARGEST else None
