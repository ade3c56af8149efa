"""Models in GPU memory: a fixed capacity, eviction of the least recently used idle model."""

from collections import OrderedDict
from enum import StrEnum


class LoadState(StrEnum):
    READY = "ready"
    LOADING = "loading"
    ABSENT = "absent"


class ModelMemory:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.evictions = 0
        self._uses: OrderedDict[str, int] = OrderedDict()  # ready models, least recently used first
        self._loading: set[str] = set()

    def __repr__(self) -> str:
        ready = ", ".join(f"{model} (in use by {uses})" for model, uses in self._uses.items())
        return (
            f"memory for {self.capacity}: {ready or 'nothing'}; loading {sorted(self._loading) or 'nothing'}"
        )

    @property
    def ready(self) -> dict[str, int]:
        """Each loaded model and how many runs use it."""
        return dict(self._uses)

    @property
    def loading(self) -> frozenset[str]:
        return frozenset(self._loading)

    def place(self, model: str) -> LoadState:
        if model in self._uses:
            return LoadState.READY
        return LoadState.LOADING if model in self._loading else LoadState.ABSENT

    def begin_load(self, model: str) -> bool:
        """Reserve room for the model, evicting idle ones; false when all loaded models are in use."""
        while len(self._uses) + len(self._loading) >= self.capacity:
            idle = next((name for name, uses in self._uses.items() if uses == 0), None)
            if idle is None:
                return False
            del self._uses[idle]
            self.evictions += 1
        self._loading.add(model)
        return True

    def end_load(self, model: str) -> None:
        self._loading.remove(model)
        self._uses[model] = 0

    def take(self, model: str) -> None:
        self._uses[model] += 1
        self._uses.move_to_end(model)

    def release(self, model: str) -> None:
        self._uses[model] -= 1
        self._uses.move_to_end(model)
