"""Jobs, executions and events as they are stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from beacon_contracts.events import EventType
from beacon_contracts.failures import Failure
from beacon_contracts.ids import JobId, UserId
from beacon_contracts.inference import RunProgress, Timing
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_contracts.tiers import JobClass, Tier
from beacon_runner.domain.jobs.states import WAITING
from beacon_runner.domain.queue.messages import Message


@dataclass(frozen=True, slots=True)
class JobHead:
    """A job as a list shows it."""

    id: JobId
    user: UserId
    kind: str
    name: str
    state: JobState
    tier: Tier
    job_class: JobClass
    stage: int
    stages: int
    attempt: int
    total: int
    completed: int
    failed: int
    cancelled: int
    failure: Failure | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    not_before: datetime | None = None
    expires_at: datetime | None = None


class JobHeads(NamedTuple):
    """A page of a list. `next`: the search goes on below this id, also if the page has few jobs, or none."""

    jobs: Sequence[JobHead]
    next: JobId | None


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job with all columns of its row.

    `deferred`: it waits for the time of its start or its next attempt. `held`: its user is disabled.
    `scheduled`: that was its first state. `claimed`: a worker holds it, or held it when it started.
    """

    head: JobHead
    spec: Mapping[str, Any]
    context: Mapping[str, Any]
    original_class: JobClass
    lane: str
    front: bool
    generation: int
    fence: int
    event_seq: int
    price_paid: int
    next_attempt_at: datetime | None
    deferred: bool
    promoted_at: datetime | None
    held: bool = False
    scheduled: bool = False
    claimed: bool = False
    webhook: Mapping[str, Any] | None = None

    @property
    def id(self) -> JobId:
        return self.head.id

    @property
    def state(self) -> JobState:
        return self.head.state

    @property
    def message(self) -> Message:
        head = self.head
        return Message(head.id, self.generation, head.stage, head.attempt, head.job_class, self.lane)

    @property
    def in_queue(self) -> bool:
        """In a lane or at the front: not claimed, not held, and waiting for no time and no limit."""
        if self.state not in WAITING or self.claimed:
            return False
        return not (self.deferred or self.held or self.waits_for_limit)

    @property
    def waits_for_limit(self) -> bool:
        """It is accepted, and starts when a limit of its user allows it."""
        return self.state is JobState.SCHEDULED and self.next_attempt_at is None

    @property
    def in_backoff(self) -> bool:
        """An attempt failed, and the time of the next one has not come."""
        return self.state is JobState.RETRYING and self.deferred


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    attempt: int
    state: ExecutionState
    actual_region: str | None
    backend: str | None
    failure: Failure | None
    started_at: datetime | None
    finished_at: datetime | None
    timing: Timing | None


class ExecutionPlace(NamedTuple):
    """Where an execution is in its job; executions are ordered by it."""

    stage: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class ExecutionRecord:
    """An execution with its newest attempt; `retries` counts those that a user asked for.

    `response` is the complete response of an OpenAI-compatible backend. `tokens` are in and out, if known.
    `progress`: of its run.
    """

    stage: int
    ordinal: int
    output: Any
    newest: AttemptRecord
    retries: int = 0
    response: Any = None
    tokens: tuple[int, int] | None = None
    progress: RunProgress | None = None


class ExecutionPart(NamedTuple):
    """Recorded executions in order; `ends_before` the first one that a separate answer must have."""

    recorded: Sequence[ExecutionRecord]
    ends_before: ExecutionPlace | None


@dataclass(frozen=True, slots=True)
class EventRecord:
    seq: int
    type: EventType
    at: datetime
    data: Mapping[str, Any]


class SentExecutions(NamedTuple):
    """How many executions of a job wait at routers, how many are on GPUs, and the sum of their percents."""

    queued: int = 0
    running: int = 0
    percent: float = 0.0


@dataclass(frozen=True, slots=True)
class LiveCount:
    """How many live jobs are in a state and class, and the longest wait of those without a worker."""

    state: JobState
    job_class: JobClass
    jobs: int
    oldest_s: float | None


@dataclass(frozen=True, slots=True)
class LiveJob:
    """A row of the public queue; `model` is that of the current stage, or the first one.

    `ended`: how many executions have ended, with the parts of running ones.
    """

    id: JobId
    user: UserId
    name: str
    state: JobState
    tier: Tier
    front: bool
    total: int
    ended: float
    model: str
    duration_s: float | None
