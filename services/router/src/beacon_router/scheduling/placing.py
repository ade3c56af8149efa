"""Which of the backends that are free a model goes to."""

from typing import Final

from beacon_router.scheduling.decisions import Health
from beacon_router.scheduling.machines import Backend

_CLOSED: Final = Health.CLOSED
"""Asking an enum for a member costs as much as a call, and this one is asked for in every decision."""
_NOT_CLOSED: Final = 4
"""More than any harm."""


def place(model: str, free: list[Backend]) -> Backend:
    """Where it costs least, and of those the one that has rested longest, which comes first."""
    return free[0] if len(free) == 1 else _cheapest(model, free)


def _cheapest(model: str, free: list[Backend]) -> Backend:
    best, lowest = free[0], 2 * _NOT_CLOSED
    for backend in free:
        cost = _cost(model, backend)
        if cost < lowest:
            best, lowest = backend, cost
    return best


def _cost(model: str, backend: Backend) -> int:
    """Loaded there, else where nothing has to go, else where what has to go is held elsewhere, too."""
    if model in backend.loaded:
        harm = 0
    elif len(backend.loaded) < backend.spec.loaded_models:
        harm = 1
    else:
        harm = 2 if len(backend.fleet.region.holders[backend.loaded[0]]) > 1 else 3
    return harm if backend.health is _CLOSED else harm + _NOT_CLOSED
