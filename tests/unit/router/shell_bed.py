"""A whole dispatching shell on a clock moved by hand, with backends that answer when the test says so."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from beacon_contracts.failures import FailureStage
from beacon_contracts.inference import InferenceState
from beacon_contracts.tiers import Tier
from beacon_lifecycle import ManualClock
from beacon_router.backends import Answer, BackendCall, BackendError, Result
from beacon_router.backends.types import Sink
from beacon_router.scheduling import (
    BackendSpec,
    GroupSpec,
    ModelSpec,
    RegionSpec,
    RequestId,
    Scheduler,
    Topology,
)
from beacon_router.service.admission import AdmissionRules
from beacon_router.service.backoff import RetryPolicy
from beacon_router.service.breakers import BreakerRules
from beacon_router.service.dispatch_service import DispatchService, ShellRules
from beacon_router.service.inference import Ask, Inference, Payload
from beacon_router.service.inference_store import HeldBounds
from beacon_router.service.limits import ModelBudget, RunLimits
from beacon_router.service.observer import Observers
from beacon_router.service.run_controller import RunRules

LOAD_S, RUN_S = 60.0, 30.0
READER_S = 10.0


class HeldCall:
    """A call that a backend works on until the test answers it."""

    def __init__(self, call: BackendCall, ended: Callable[[Result], None]) -> None:
        self.call = call
        self.open = True
        self.aborted = False
        self._ended = ended

    def end(self, result: Result) -> None:
        self.open = False
        self._ended(result)

    def cancel(self) -> None:
        self.open = False
        self.aborted = True


class ManualBackend:
    """Holds every call. `calls` has all there ever were; `open` those that are not answered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: list[HeldCall] = []
        self.crash: Exception | None = None

    @property
    def open(self) -> list[HeldCall]:
        return [held for held in self.calls if held.open]

    def start(self, call: BackendCall, ended: Callable[[Result], None], sink: Sink | None = None) -> HeldCall:
        if self.crash is not None:
            raise self.crash
        held = HeldCall(call, ended)
        self.calls.append(held)
        return held


def failure(
    code: str = "backend_unavailable",
    *,
    retryable: bool = True,
    blame: bool = True,
    status: int | None = 503,
    retry_after_s: float | None = None,
) -> BackendError:
    return BackendError(code, FailureStage.RUN, retryable, "it broke", blame, status, retry_after_s)


class ShellBed:
    def __init__(
        self, shell: DispatchService, clock: ManualClock, backends: dict[str, ManualBackend]
    ) -> None:
        self.shell = shell
        self.clock = clock
        self.backends = backends

    def submit(
        self,
        request: str,
        *,
        model: str = "m",
        region: str = "US",
        size: int = 10,
        tier: Tier = Tier.FREE,
        pinned: bool = False,
        front: bool = False,
        fence: int = 0,
        start_by: float | None = None,
        timeout_s: float | None = None,
        user: str = "",
    ) -> Inference:
        ask = Ask(
            RequestId(request),
            model,
            region,
            tier,
            user,
            pinned=pinned,
            front=front,
            fence=fence,
            start_by=start_by,
            timeout_s=timeout_s,
        )
        return self.shell.dispatcher.submit(ask, Payload(b"x" * size))

    async def settle(self) -> None:
        """Let everything happen that needs no time."""
        await self.clock.advance(0)

    async def answer(self, backend: str, output: bytes = b'"done"', *, load_s: float | None = None) -> None:
        """The oldest open call of the backend gets its answer."""
        await self.settle()
        self.backends[backend].open[0].end(Answer(output, load_s=load_s))
        await self.settle()

    async def fail(self, backend: str, error: BackendError) -> None:
        await self.settle()
        self.backends[backend].open[0].end(error)
        await self.settle()

    def running(self, backend: str) -> list[str]:
        return [held.call.request_id for held in self.backends[backend].open]

    def state(self, request: str) -> InferenceState:
        return self.get(request).state

    def get(self, request: str) -> Inference:
        return self.shell.dispatcher.get(RequestId(request))


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


@asynccontextmanager
async def shell_bed(
    given: Topology | None = None,
    *,
    attempts: int = 3,
    queue_size: int = 100,
    held_bytes: int = 10_000,
    retention_s: float = 600.0,
    breaker_failures: int = 5,
    stop_grace_s: float = 0.01,
) -> AsyncIterator[ShellBed]:
    clock = ManualClock()
    where = given or topology()
    backends = {spec.name: ManualBackend(spec.name) for spec in where.backends}
    budgets = {model.name: ModelBudget(LOAD_S, RUN_S) for model in where.models}
    rules = ShellRules(
        runs=RunRules(RetryPolicy(attempts, 60.0), RunLimits(budgets), READER_S),
        breakers=BreakerRules(breaker_failures, 15.0),
        admission=AdmissionRules(queue_size),
        held=HeldBounds(held_bytes, retention_s),
        stop_grace_s=stop_grace_s,
    )
    shell = DispatchService(
        where, Scheduler(where), rules, backends=backends, clock=clock, observer=Observers()
    )
    await shell.start()
    bed = ShellBed(shell, clock, backends)
    try:
        yield bed
    finally:
        await shell.stop()
