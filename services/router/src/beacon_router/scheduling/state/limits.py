"""Caps that backends, regions and routers share."""

from typing import TYPE_CHECKING

from beacon_router.scheduling.state.topology import LimitName

if TYPE_CHECKING:
    from beacon_router.scheduling.state.backend_state import BackendState, RegionState


class Limit:
    """Counts the runs under a cap; `held` is how much of the cap this scheduler may use now."""

    __slots__ = ("backends", "cap", "held", "model", "name", "regions", "served", "used")

    def __init__(self, name: LimitName, cap: int, model: str | None = None) -> None:
        self.name = name
        self.cap = cap
        self.model = model
        """The model it limits; None for a group, a region or the slots of a backend."""
        self.held = cap
        self.used = 0
        self.backends: list[BackendState] = []
        """Those whose runs need a token: all of the group, or all that serve the model."""
        self.regions: dict[RegionState, None] = {}
        self.served: dict[str, int] = {}
        """By region, the number of the dispatch that last took a token."""

    @property
    def full(self) -> bool:
        return self.used >= self.held

    def add_backend(self, backend: "BackendState") -> None:
        """Runs on this backend may need a token."""
        self.backends.append(backend)
        self.regions[backend.region] = None
