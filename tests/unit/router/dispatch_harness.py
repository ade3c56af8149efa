"""A DispatchService on a manual clock, with backends whose results the test decides."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

from beacon_contracts.failures import FailureStage
from beacon_contracts.inference import InferenceState
from beacon_lifecycle import ManualClock
from beacon_router.backends import BackendCall, BackendError, BackendResult
from beacon_router.backends.types import RunObserver, Sink
from beacon_router.scheduling import (
    BackendSpec,
    GroupSpec,
    ModelSpec,
    Policy,
    RegionSpec,
    RequestId,
    Scheduler,
    Topology,
)
from beacon_router.service.breakers import BreakerRules
from beacon_router.service.dispatch_service import DispatchRules, DispatchService
from beacon_router.service.inference import Inference, InferenceSpec
from beacon_router.service.inference_store import StoreLimits
from beacon_router.service.run_events import RunEvents
from beacon_router.service.run_rules import BackoffPolicy, ModelBudget, RunRules, RunTimeouts
from beacon_router.service.streams import StreamSink

LOAD_S, RUN_S = 60.0, 30.0
READER_S = 10.0


class HeldCall:
    """A call that a backend works on until the test ends it."""

    def __init__(self, call: BackendCall, observer: RunObserver) -> None:
        self.call = call
        self.observer = observer
        self.open = True
        self.aborted = False
        self._steps: asyncio.Queue[bytes | BackendResult | BackendError] = asyncio.Queue()

    def write(self, piece: bytes) -> None:
        """Stream a piece to the client."""
        self._steps.put_nowait(piece)

    def end(self, result: BackendResult | BackendError) -> None:
        self.open = False
        self._steps.put_nowait(result)

    async def result(self, sink: Sink | None) -> BackendResult:
        try:
            while True:
                step = await self._steps.get()
                if isinstance(step, BackendError):
                    raise step
                if isinstance(step, BackendResult):
                    return step
                if sink is not None:
                    await sink.write(step)
        except asyncio.CancelledError:
            self.open = False
            self.aborted = True
            raise


class ManualBackend:
    """Holds every call. `calls` are all calls; `open` those without a result."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.remote: ManualBackend | None = None
        """Set it to `self` for a backend whose runs continue without a connection."""
        self.cancelled: list[str] = []
        """The runs that were cancelled by their ids."""
        self.calls: list[HeldCall] = []
        self.cancel_errors: list[BackendError] = []
        """Of the next cancels."""
        self.crash: Exception | None = None

    @property
    def open(self) -> list[HeldCall]:
        return [held for held in self.calls if held.open]

    async def run(
        self,
        call: BackendCall,
        *,
        attempt: int = 1,
        sink: Sink | None = None,
        observer: RunObserver | None = None,
    ) -> BackendResult:
        if self.crash is not None:
            raise self.crash
        assert observer is not None
        held = HeldCall(call, observer)
        self.calls.append(held)
        return await held.result(sink)

    async def cancel(self, run_id: str) -> None:
        if self.cancel_errors:
            raise self.cancel_errors.pop(0)
        self.cancelled.append(run_id)


def failure(
    code: str = "backend_unavailable",
    *,
    retryable: bool = True,
    counts_as_failure: bool = True,
    status: int | None = 503,
    retry_after_s: float | None = None,
) -> BackendError:
    return BackendError(
        code, FailureStage.RUN, retryable, "it broke", counts_as_failure, status, retry_after_s
    )


class DispatchHarness:
    def __init__(
        self, service: DispatchService, clock: ManualClock, backends: dict[str, ManualBackend]
    ) -> None:
        self.service = service
        self.clock = clock
        self.backends = backends

    def submit(
        self,
        request: str,
        *,
        model: str = "m",
        region: str = "US",
        size: int = 10,
        pinned: bool = False,
        front: bool = False,
        fence: int = 0,
        start_by: float | None = None,
        timeout_s: float | None = None,
        sink: StreamSink | None = None,
        user: str = "",
        weight: float = 1.0,
    ) -> Inference:
        spec = InferenceSpec(
            RequestId(request),
            model,
            region,
            4,
            b"x" * (size - 4),
            user_id=user,
            weight=weight,
            pinned=pinned,
            front=front,
            fence=fence,
            start_by=start_by,
            timeout_s=timeout_s,
            sink=sink,
        )
        return self.service.submit(spec)

    def adopt(self, changed: Topology) -> None:
        """Continue with another topology, as after a change of the configuration."""
        policy = Policy()
        self.service.adopt(
            changed,
            policy,
            run_rules(changed),
            ranks=range(len(policy.tiers)),
            replaced=(),
            scale_to_zero=frozenset(),
            queue_size=100,
        )
        self.service.runs.dispatch_ready()

    async def settle(self) -> None:
        """Run all tasks that need no time."""
        await self.clock.advance(0)

    async def answer(self, backend: str, output: bytes = b'"done"', *, load_s: float | None = None) -> None:
        """End the oldest open call of the backend."""
        await self.settle()
        self.backends[backend].open[0].end(BackendResult(output, load_s=load_s))
        await self.settle()

    async def fail(self, backend: str, error: BackendError) -> None:
        await self.settle()
        self.backends[backend].open[0].end(error)
        await self.settle()

    def running(self, backend: str) -> list[str]:
        return [held.call.id for held in self.backends[backend].open]

    def state(self, request: str) -> InferenceState:
        return self.get(request).state

    def get(self, request: str) -> Inference:
        return self.service.get(RequestId(request))


def topology(
    backends: Sequence[BackendSpec] | None = None,
    *,
    groups: Sequence[GroupSpec] = (),
    models: Sequence[ModelSpec] | None = None,
) -> Topology:
    given = backends or (
        BackendSpec("us", "US", frozenset({"m", "n"}), slots=1),
        BackendSpec("eu", "EU", frozenset({"m", "n"}), slots=1),
    )
    return Topology(
        regions=tuple(RegionSpec(name) for name in dict.fromkeys(backend.region for backend in given)),
        backends=tuple(given),
        models=tuple(models or (ModelSpec("m", 0.0, 1.0), ModelSpec("n", 0.0, 1.0))),
        groups=tuple(groups),
    )


def run_rules(where: Topology, attempts: int = 3) -> RunRules:
    budget = ModelBudget(LOAD_S, RUN_S)
    timeouts = RunTimeouts({model.name: budget for model in where.models}, budget)
    return RunRules(BackoffPolicy(attempts, 60.0), timeouts, READER_S)


@asynccontextmanager
async def dispatch_harness(
    given: Topology | None = None,
    *,
    attempts: int = 3,
    queue_size: int = 100,
    held_bytes: int = 10_000,
    retention_s: float = 600.0,
    breaker_failures: int = 5,
    stop_grace_s: float = 0.01,
    scale_to_zero: Collection[str] = (),
) -> AsyncIterator[DispatchHarness]:
    clock = ManualClock()
    where = given or topology()
    backends = {spec.name: ManualBackend(spec.name) for spec in where.backends}
    rules = DispatchRules(
        runs=run_rules(where, attempts),
        breakers=BreakerRules(breaker_failures, 15.0, scale_to_zero=frozenset(scale_to_zero)),
        queue_size=queue_size,
        store=StoreLimits(held_bytes, retention_s),
        stop_grace_s=stop_grace_s,
    )
    service = DispatchService(
        where,
        Scheduler(where),
        rules,
        backends=backends,
        clock=clock,
        events=RunEvents(),
        ready=asyncio.Event(),
    )
    await service.start()
    harness = DispatchHarness(service, clock, backends)
    try:
        yield harness
    finally:
        await service.stop()
