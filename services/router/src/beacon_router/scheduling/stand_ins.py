"""Those that play in a rehearsal in place of slots and lanes, which it must not touch."""

from bisect import bisect_left

from beacon_router.scheduling.decisions import Health
from beacon_router.scheduling.lanes import Lane, Queue
from beacon_router.scheduling.machines import Backend
from beacon_router.scheduling.patience import Allowance
from beacon_router.scheduling.pools import Pool
from beacon_router.scheduling.topology import LimitName

NOBODY = -1
"""The number of a head that is not there."""


class Seat:
    """A slot of a backend."""

    __slots__ = ("backend", "free_at", "loaded", "model", "models", "rested", "room")

    def __init__(self, backend: Backend, free_at: float, model: str | None, loaded: list[str]) -> None:
        self.backend = backend
        self.models = backend.fleet.models
        self.free_at = free_at
        self.rested = backend.rested if model is None else free_at
        """When a run there last ends."""
        self.model = model
        """What runs there until then."""
        self.loaded = loaded
        """Shared by the slots of the backend."""
        self.room = backend.spec.loaded_models

    def take(self, model: str, size: float | None, now: float) -> None:
        """Run one of this size for as long as such take on average, with its load if it is not there."""
        seconds = self.backend.runs_s.of_size(model, size)
        if model in self.loaded:
            self.loaded.remove(model)
        else:
            seconds += self.backend.loads_s.of(model)
            if len(self.loaded) >= self.room:
                del self.loaded[0]
        self.loaded.append(model)
        self.model = model
        self.free_at = self.rested = now + seconds


class Part:
    """A lane: its head, who is behind it, and who started when."""

    __slots__ = (
        "_behind",
        "_late",
        "_ordinal",
        "_ordinals",
        "allowance",
        "arrived",
        "lane",
        "live",
        "main",
        "model",
        "rank",
        "real",
        "seq",
        "size",
        "starts",
    )

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.main = lane.queue is Queue.MAIN
        self.model = lane.model
        self.rank = lane.rank
        self.live = lane.live
        """How many wait."""
        self.starts: list[float] = []
        self._behind = lane.waiting()
        self._late: list[tuple[float, int]] = []
        """Moments and numbers of those that came during the rehearsal."""
        self._ordinal = 0
        self._ordinals: list[int] = []
        self.arrived, self.seq = 0.0, NOBODY
        self._step()

    def start(self, now: float) -> None:
        """The head starts; the next one is the head."""
        self.starts.append(now)
        self._ordinals.append(self._ordinal)
        self.live -= 1
        self._step()

    def join(self, arrived: float, seq: int) -> bool:
        """Somebody comes during the rehearsal; True when nobody else waits."""
        self.live += 1
        if self.seq != NOBODY:
            self._late.append((arrived, seq))
            return False
        self.arrived, self.seq = arrived, seq
        return True

    def start_of(self, ordinal: int) -> float | None:
        """When the one that joined the lane as this number starts; None when that is not reached."""
        place = bisect_left(self._ordinals, ordinal)
        return self.starts[place] if place < len(self.starts) else None

    def _step(self) -> None:
        ticket = next(self._behind, None)
        self.real = ticket is not None
        self.allowance: Allowance | None = None
        self.size: float | None = None
        self._ordinal += 1
        if ticket is not None:
            self.seq, self.arrived, self.allowance = ticket.seq, ticket.arrived, ticket.allowance
            self._ordinal = ticket.ordinal
            self.size = ticket.request.size
        elif self._late:
            self.arrived, self.seq = self._late.pop(0)
        else:
            self.arrived, self.seq = 0.0, NOBODY


def seats(now: float, pool: Pool) -> list[Seat]:
    """The slots that may be used, the first that is free first; behind open breakers only if all are open."""
    backends = [backend for fleet in pool.fleets for backend in fleet.backends]
    alive = [backend for backend in backends if backend.health is not Health.OPEN]
    found = [seat for backend in alive or backends for seat in _seats_of(now, backend)]
    found.sort(key=lambda seat: seat.free_at)
    found = _within_limits(found)
    return found[: max(1, pool.fleets[0].region.concurrency)] if found else found


def _seats_of(now: float, backend: Backend) -> list[Seat]:
    loaded = list(backend.loaded)
    busy = [Seat(backend, run.likely_end(now), run.request.model, loaded) for run in backend.runs.values()]
    return busy + [Seat(backend, now, None, loaded) for _ in range(backend.slots - len(busy))]


def _within_limits(found: list[Seat]) -> list[Seat]:
    """As many slots of each limit as run now and as there are tokens for; at least one."""
    left: dict[LimitName, int] = {}
    kept: list[Seat] = []
    for seat in found:
        limits = seat.backend.limits
        for limit in limits:
            if limit.name not in left:
                here = sum(other.model is not None and limit in other.backend.limits for other in found)
                left[limit.name] = max(1, here + limit.held - limit.used)
        if all(left[limit.name] > 0 for limit in limits):
            for limit in limits:
                left[limit.name] -= 1
            kept.append(seat)
    return kept
