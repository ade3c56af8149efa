"""Simpler policies with the interface of the scheduler. All prefer a free GPU that has the model loaded."""

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Iterator

from beacon_router.scheduling import Decision, Eta, Outcome, Reason, Request, RequestId, Start, Topology


class Gpu:
    __slots__ = ("free", "loaded", "name", "used_at")

    def __init__(self, name: str) -> None:
        self.name = name
        self.free = True
        self.loaded: str | None = None
        self.used_at = -1.0


class Baseline(ABC):
    """Every backend is one GPU that holds one model and serves all; each region has its own queue."""

    def __init__(self, topology: Topology) -> None:
        self._gpus: dict[str, list[Gpu]] = {region.name: [] for region in topology.regions}
        for backend in topology.backends:
            self._gpus[backend.region].append(Gpu(backend.name))
        self._running: dict[RequestId, tuple[str, Gpu]] = {}
        self._dirty: set[str] = set()

    def submit(self, now: float, request: Request) -> None:
        del now
        self._put(request)
        self._dirty.add(request.region)

    def finished(
        self, now: float, request: RequestId, outcome: Outcome, *, load_s: float | None, run_s: float | None
    ) -> None:
        del now, outcome, load_s, run_s
        region, gpu = self._running.pop(request)
        gpu.free = True
        self._dirty.add(region)

    def model_loaded(self, now: float, backend: str, model: str) -> None:
        """Already known from the start."""
        del now, backend, model

    def next(self, now: float) -> list[Decision]:
        decisions: list[Decision] = [start for region in self._dirty for start in self._starts(now, region)]
        self._dirty.clear()
        return decisions

    def next_wakeup(self) -> float | None:
        """Only arrivals and ends matter."""
        return None

    def eta(self, now: float, request: RequestId) -> Eta | None:
        """Baselines have no estimates."""
        del now, request
        return None

    def _starts(self, now: float, region: str) -> Iterator[Start]:
        while free := [gpu for gpu in self._gpus[region] if gpu.free]:
            request = self._take(region)
            if request is None:
                return
            gpu = min(free, key=lambda one: (one.loaded != request.model, one.used_at))
            loads = gpu.loaded != request.model
            gpu.free, gpu.loaded, gpu.used_at = False, request.model, now
            self._running[request.id] = (region, gpu)
            yield Start(request.id, gpu.name, region, loads, Reason.ORDER, moved=False)

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
    """A FIFO per model; models are served round-robin."""

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


class LeastAttained(Baseline):
    """The user with the least GPU time: the ideal fair server, if loads take no time. A user without
    waiting requests starts at the least GPU time of those with waiting requests."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self._expected = {model.name: model.expected_run_s for model in topology.models}
        self._queues: dict[str, dict[str, deque[Request]]] = {region.name: {} for region in topology.regions}
        self._used: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._charged: dict[RequestId, tuple[tuple[str, str], float]] = {}

    def finished(
        self, now: float, request: RequestId, outcome: Outcome, *, load_s: float | None, run_s: float | None
    ) -> None:
        super().finished(now, request, outcome, load_s=load_s, run_s=run_s)
        user, charged_s = self._charged.pop(request)
        self._used[user] += (run_s or 0.0) - charged_s

    def _put(self, request: Request) -> None:
        queues, user = self._queues[request.region], (request.region, request.user)
        if request.user not in queues:
            least = min((self._used[request.region, other] for other in queues), default=0.0)
            self._used[user] = max(self._used[user], least)
        queues.setdefault(request.user, deque()).append(request)

    def _take(self, region: str) -> Request | None:
        queues = self._queues[region]
        if not queues:
            return None
        user = min(queues, key=lambda one: (self._used[region, one], one))
        request = queues[user].popleft()
        if not queues[user]:
            del queues[user]
        self._charged[request.id] = ((region, user), self._expected[request.model])
        self._used[region, user] += self._expected[request.model]
        return request


class FewestLoads(Baseline):
    """A GPU changes its model only when no request for it waits: to the model with the most waiting requests
    of those that no GPU of the region has loaded. It bounds what can be saved of the loads, not a policy for
    use: rare models wait for as long as others are asked for."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self._queues: dict[str, dict[str, deque[Request]]] = {region.name: {} for region in topology.regions}

    def _put(self, request: Request) -> None:
        self._queues[request.region].setdefault(request.model, deque()).append(request)

    def _take(self, region: str) -> Request | None:
        """For a loaded model of a free GPU, else for one that is nowhere loaded."""
        queues, gpus = self._queues[region], self._gpus[region]
        held = {gpu.loaded for gpu in gpus}
        warm = [gpu.loaded for gpu in gpus if gpu.free and gpu.loaded in queues]
        model = warm[0] if warm else None
        if model is None:
            absent = [one for one in queues if one not in held]
            model = max(absent, key=lambda one: len(queues[one]), default=None)
        if model is None:
            return None
        request = queues[model].popleft()
        if not queues[model]:
            del queues[model]
        return request
