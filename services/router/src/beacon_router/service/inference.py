"""The state of one inference: its request, its runs and its result."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from beacon_contracts.failures import Failure
from beacon_contracts.files import InputFile, OutputFile
from beacon_contracts.inference import InferenceState, RemoteRun, RunProgress, StepMeta
from beacon_router.backends.types import EMPTY_OBJECT
from beacon_router.scheduling import RequestId, Start
from beacon_router.service.streams import StreamSink
from beacon_router.service.timers import Timer

if TYPE_CHECKING:
    from beacon_router.service.run_monitor import RunMonitor


class InferenceSpec(NamedTuple):
    """A validated request with resolved names. Input, params and context are JSON text.

    `start_by` is a moment of the router's monotonic clock. Also the `BackendCall` that dialects read.
    """

    id: RequestId
    model: str
    region: str
    rank: int
    input: bytes
    params: bytes = EMPTY_OBJECT
    context: bytes = EMPTY_OBJECT
    meta: StepMeta | None = None
    user_id: str = ""
    weight: float = 1.0
    following: int = 0
    pinned: bool = False
    front: bool = False
    fence: int = 0
    start_by: float | None = None
    timeout_s: float | None = None
    sink: StreamSink | None = None
    work_size: float | None = None
    needs: frozenset[str] = frozenset()
    files: tuple[InputFile, ...] = ()
    remote: RemoteRun | None = None


class RunRecord(NamedTuple):
    """One finished run."""

    region: str
    backend: str
    outcome: str
    failure: Failure | None
    queued_s: float
    load_s: float
    run_s: float


@dataclass(slots=True, eq=False)
class Run:
    """One attempt in progress."""

    inference: "Inference"
    start: Start
    number: int
    started_at: float
    """When it got its slot; of a run that waits at its provider, when it began there."""
    cold: bool
    """The model is not loaded yet, or an earlier run is still loading it."""
    monitor: "RunMonitor" = field(init=False)
    called: bool = False
    """Its backend was called, and ends it when the task is cancelled."""
    waiting: bool = False
    """It waits in the queue of its provider, or starts there."""
    probes_start: bool = False
    """Its backend starts: most probably no instance receives it yet."""
    timeout: Timer | None = None
    reader_timeout: Timer | None = None
    """Set while the backend waits for a client that does not read its stream."""


@dataclass(slots=True, eq=False)
class Inference:
    """Changed only by the RunController."""

    id: RequestId
    spec: InferenceSpec
    payload_bytes: int
    fence: int
    accepted_at: float
    front: bool
    waiting_since: float
    state: InferenceState = InferenceState.QUEUED
    attempts: tuple[RunRecord, ...] = ()
    run: Run | None = None
    retry: Timer | None = None
    retry_at: float | None = None
    actual_region: str | None = None
    """The region of the last run."""
    backend: str | None = None
    """The backend of the last run."""
    output: bytes | None = None
    response: bytes | None = None
    usage: Mapping[str, int] | None = None
    files: tuple[OutputFile, ...] = ()
    remote: RemoteRun | None = None
    """The run at a provider, which another attempt or another router can continue."""
    progress: RunProgress | None = None
    failure: Failure | None = None
    ended_at: float | None = None
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    """Resolved when the inference has ended."""
    observers: "list[Callable[[Inference], None]]" = field(default_factory=list)
    """Called when a run has started, was named or has progressed, when the inference waits again, and when it
    has ended."""

    @property
    def done(self) -> bool:
        return self.ended_at is not None

    @property
    def last_failure(self) -> Failure | None:
        """Of the last run."""
        return self.attempts[-1].failure if self.attempts else None

    @property
    def tried(self) -> frozenset[str]:
        """The regions in which attempts have failed."""
        return frozenset(attempt.region for attempt in self.attempts)

    @property
    def on_gpu(self) -> bool:
        return self.run is not None and not (self.run.waiting or self.run.probes_start)

    def notify_observers(self) -> None:
        for observer in tuple(self.observers):
            observer(self)

    def notify_waiters(self) -> None:
        if self.spec.sink is not None:
            self.spec.sink.end()
            self.spec = self.spec._replace(sink=None)
        self.notify_observers()
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
