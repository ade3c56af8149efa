"""Which of the backends that are free a model goes to."""

from typing import Final

from beacon_router.core.decisions import Health
from beacon_router.core.machines import Backend

_CLOSED: Final = Health.CLOSED
"""Asking an enum for a member costs as much as a call, and this one is asked for in every decision."""


def place(model: str, free: list[Backend]) -> Backend:
    """Where it costs least, and of those the one that has rested longest, which comes first."""
    return free[0] if len(free) == 1 else _cheapest(model, free)


def rested(backend: Backend) -> tuple[int, str]:
    """Sorts those that have rested longest to the front."""
    return backend.used_at, backend.name


def _cheapest(model: str, free: list[Backend]) -> Backend:
    return min(free, key=lambda backend: _cost(model, backend))


def _cost(model: str, backend: Backend) -> tuple[bool, int]:
    """Loaded there, else where nothing has to go, else where what has to go is held elsewhere, too."""
    if model in backend.loaded:
        harm = 0
    elif len(backend.loaded) < backend.spec.loaded_models:
        harm = 1
    else:
        harm = 2 if len(backend.fleet.region.holders[backend.loaded[0]]) > 1 else 3
    return backend.health is not _CLOSED, harm
