"""The shell's record of one inference: who asked for it, where it stands, and what came of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from beacon_contracts.failures import Failure
from beacon_contracts.inference import InferenceState, StepMeta
from beacon_contracts.tiers import Tier
from beacon_router.backends import Answer, BackendError
from beacon_router.backends import Attempt as BackendAttempt
from beacon_router.backends.types import EMPTY_OBJECT, BackendCall
from beacon_router.scheduling import Request, RequestId, Start
from beacon_router.service.streams import StreamSink
from beacon_router.service.timers import Timer

_RUNNING: Final = InferenceState.RUNNING
"""Asking an enum for a member costs as much as a call, and this one is asked for in every run."""


class Payload(NamedTuple):
    """The caller's part, as JSON text: kept once, sent as it is, dropped when the inference is over.

    A named tuple, like all that is made for every inference: a frozen dataclass takes three times as long.
    """

    input: bytes
    params: bytes = EMPTY_OBJECT
    context: bytes = EMPTY_OBJECT
    meta: StepMeta | None = None

    @property
    def size(self) -> int:
        return len(self.input) + len(self.params) + len(self.context)


class Ask(NamedTuple):
    """One accepted question, checked and with its names resolved. `start_by` is of the router's own clock."""

    id: RequestId
    model: str
    region: str
    tier: Tier
    user_id: str = ""
    pinned: bool = False
    front: bool = False
    fence: int = 0
    start_by: float | None = None
    timeout_s: float | None = None
    sink: StreamSink | None = None
    size: float | None = None


class Attempt(NamedTuple):
    """One try on one backend, as it ended."""

    region: str
    backend: str
    outcome: str
    failure: Failure | None
    queued_s: float
    load_s: float
    run_s: float


@dataclass(slots=True, eq=False)
class Run:
    """An attempt under way. `stopped` says why the shell ended it, when it did."""

    inference: "Inference"
    start: Start
    number: int
    started_at: float
    cold: bool
    """The model is not loaded yet: by this run, or by an earlier one that still loads it."""
    attempt: BackendAttempt | None = None
    limit: Timer | None = None
    reader: Timer | None = None
    """Set while the backend waits for a client that does not read."""
    stopped: BackendError | None = None
    answer: Answer | None = None
    error: BackendError | None = None


@dataclass(slots=True, eq=False)
class Inference:
    """Changed only by the engine. Where it ran last is recorded, whatever was asked for."""

    ask: Ask
    payload: Payload | None
    payload_bytes: int
    fence: int
    accepted_at: float
    state: InferenceState = InferenceState.QUEUED
    front: bool = False
    waiting_since: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    run: Run | None = None
    retry: Timer | None = None
    retry_at: float | None = None
    actual_region: str | None = None
    backend: str | None = None
    output: bytes | None = None
    document: bytes | None = None
    last_error: BackendError | None = None
    failure: Failure | None = None
    ended_at: float | None = None
    waiters: dict[Callable[[], None], None] = field(default_factory=dict)
    """Whom to call at the end, in the order they came."""

    @property
    def id(self) -> RequestId:
        return self.ask.id

    @property
    def done(self) -> bool:
        return self.ended_at is not None

    @property
    def stream_begun(self) -> bool:
        """The client has read a part of the answer: it cannot be started over."""
        return self.ask.sink is not None and self.ask.sink.begun

    def request(self) -> Request:
        """What the scheduler needs to know of it."""
        ask = self.ask
        return Request(
            ask.id,
            ask.model,
            ask.region,
            ask.tier.rank,
            ask.pinned,
            self.front,
            ask.start_by,
            ask.size,
            user=ask.user_id,
        )

    def call(self, attempt: int) -> BackendCall:
        if self.payload is None:
            raise RuntimeError(f"{self.id} is over: there is nothing left to send")
        payload = self.payload
        return BackendCall(
            self.id, self.ask.model, payload.input, payload.params, payload.context, payload.meta, attempt
        )

    def started(self, run: Run) -> None:
        self.run = run
        self.state = InferenceState.WARMING if run.cold else _RUNNING
        self.actual_region = run.start.region
        self.backend = run.start.backend

    def ran(self, attempt: Attempt, now: float) -> None:
        self.run = None
        self.waiting_since = now
        self.attempts = (*self.attempts, attempt)

    def end(self, state: InferenceState, failure: Failure | None, now: float) -> None:
        self.run = None
        self.state = state
        self.failure = failure
        self.ended_at = now
