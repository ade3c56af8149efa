"""Of which models everybody stands aside: asked once, and again when something has changed."""

from collections.abc import Collection
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beacon_router.scheduling.machines import Region


class Asides:
    __slots__ = ("_end", "_models", "_region", "unsettled", "until")

    def __init__(self, region: "Region", models: Collection[str]) -> None:
        self._region = region
        self._models = models
        self.until: dict[str, float] = {}
        """By model of which everybody was found to stand aside: when the first of them stops."""
        self.unsettled: dict[str, None] = {}
        """While there are such models: the others, as far as somebody may wait for them."""
        self._end: float | None = None
        """When the first of them all stops; None: that is to be looked up."""

    def changed(self, model: str) -> None:
        """Something that those who wait for the model look at: themselves, or the backends that hold it."""
        if self.until:
            self.unsettled[model] = None
            until = self.until.pop(model, None)
            if until is not None:
                self._region.settled -= 1
                if until == self._end:
                    self._end = None

    def ask(self, now: float) -> Collection[str]:
        """The models of which it is not known; `settle` takes one out."""
        if not self.until:
            self.unsettled = dict.fromkeys(self._models)
        elif self.end() <= now:
            for model in [model for model, until in self.until.items() if until <= now]:
                self.changed(model)
        return self.unsettled

    def settle(self, model: str, until: float) -> None:
        """Everybody who waits for the model stands aside, until then if nothing changes."""
        self.until[model] = until
        self._region.settled += 1
        del self.unsettled[model]
        if self._end is not None and until < self._end:
            self._end = until

    def end(self) -> float:
        if self._end is None:
            self._end = min(self.until.values(), default=inf)
        return self._end
