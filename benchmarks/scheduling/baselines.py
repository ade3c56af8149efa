"""Simpler policies with the scheduler's doors, for comparison. All prefer a free GPU that holds the model."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator

from beacon_router.scheduling import Decision, Eta, Outcome, Reason, Request, RequestId, Start, Topology


class Machine:
    __slots__ = ("free", "loaded", "name", "used_at")

    def __init__(self, name: str) -> None:
        self.name = name
        self.free = True
        self.loaded: str | None = None
        self.used_at = -1.0


class Baseline(ABC):
    """Every backend is one GPU that holds one model and serves all; each region has its own queue."""

    def __init__(self, topology: Topology) -> None:
        self._machines: dict[str, list[Machine]] = {region.name: [] for region in topology.regions}
        for backend in topology.backends:
            self._machines[backend.region].append(Machine(backend.name))
        self._running: dict[RequestId, tuple[str, Machine]] = {}
        self._stirred: set[str] = set()

    def submit(self, now: float, request: Request) -> None:
        del now
        self._put(request)
        self._stirred.add(request.region)

    def finished(
        self, now: float, request: RequestId, outcome: Outcome, *, load_s: float | None, run_s: float | None
    ) -> None:
        del now, outcome, load_s, run_s
        region, machine = self._running.pop(request)
        machine.free = True
        self._stirred.add(region)

    def model_loaded(self, now: float, backend: str, model: str) -> None:
        """Nothing to learn."""
        del now, backend, model

    def next(self, now: float) -> list[Decision]:
        decisions: list[Decision] = [start for region in self._stirred for start in self._starts(now, region)]
        self._stirred.clear()
        return decisions

    def next_wakeup(self) -> float | None:
        """Only arrivals and ends matter."""
        return None

    def eta(self, now: float, request: RequestId) -> Eta | None:
        """Nothing is foretold."""
        del now, request
        return None

    def _starts(self, now: float, region: str) -> Iterator[Start]:
        while free := [machine for machine in self._machines[region] if machine.free]:
            request = self._take(region)
            if request is None:
                return
            machine = min(free, key=lambda one: (one.loaded != request.model, one.used_at))
            loads = machine.loaded != request.model
            machine.free, machine.loaded, machine.used_at = False, request.model, now
            self._running[request.id] = (region, machine)
            yield Start(request.id, machine.name, region, loads, Reason.ORDER, moved=False)

    @abstractmethod
    def _put(self, request: Request) -> None: ...

    @abstractmethod
    def _take(self, region: str) -> Request | None: ...


class Fifo(Baseline):
    """Arrival order, nothing else."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self._queues: dict[str, deque[Request]] = {region.name: deque() for region in topology.regions}

    def _put(self, request: Request) -> None:
        self._queues[request.region].append(request)

    def _take(self, region: str) -> Request | None:
        queue = self._queues[region]
        return queue.popleft() if queue else None


class StrictPriority(Baseline):
    """The lowest rank that waits, always."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self._queues: dict[str, dict[int, deque[Request]]] = {
            region.name: {rank: deque() for rank in range(5)} for region in topology.regions
        }

    def _put(self, request: Request) -> None:
        self._queues[request.region][request.rank].append(request)

    def _take(self, region: str) -> Request | None:
        return next((queue.popleft() for queue in self._queues[region].values() if queue), None)


class PerModelFifo(Baseline):
    """A FIFO for each model; the models that have work take turns."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self._rings: dict[str, dict[str, deque[Request]]] = {region.name: {} for region in topology.regions}

    def _put(self, request: Request) -> None:
        self._rings[request.region].setdefault(request.model, deque()).append(request)

    def _take(self, region: str) -> Request | None:
        ring = self._rings[region]
        if not ring:
            return None
        model = next(iter(ring))
        queue = ring.pop(model)
        request = queue.popleft()
        if queue:
            ring[model] = queue
        return request
