"""What the loops need from the outside, as small as they need it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from beacon_config.limits import RetentionConfig
from beacon_contracts.ids import JobId
from beacon_contracts.inference import InferenceRequest, InferenceView
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.messages import Message, OutboxEntry
from beacon_runner.domain.plan import Place
from beacon_runner.domain.stage_result import ClaimedJob, StageReport


class StoreUnavailableError(Exception):
    """Postgres does not answer now; what was asked may or may not have happened."""


class StoreOutdatedError(StoreUnavailableError):
    """Postgres has not the version that this code was written for: all waits for the migration."""


@dataclass(frozen=True, slots=True)
class OutboxLag:
    """What waits to be published: how much, and how long the oldest has waited."""

    entries: int
    oldest_s: float


class Outbox(Protocol):
    def take(self, limit: int) -> AbstractAsyncContextManager[Sequence[OutboxEntry]]:
        """Up to `limit` entries; they are gone when the block ends well and back when it does not."""
        ...

    async def forget(self, numbers: Sequence[int]) -> None:
        """Remove entries that have arrived by another way."""
        ...

    async def lag(self) -> OutboxLag: ...


class ClaimStore(Protocol):
    async def claim(self, messages: Sequence[Message], worker: str) -> Sequence[ClaimedJob]:
        """Fence each job that its message still speaks for; the others are missing from the answer."""
        ...

    async def confirm(self, message: Message, job: ClaimedJob, worker: str) -> bool:
        """Say that this worker has the job that it was granted; false, and nothing changed, if it is late."""
        ...

    async def record(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        """Apply each report whose fence still holds, in one transaction; the jobs that were applied."""
        ...


@dataclass(frozen=True, slots=True)
class LiveMessage:
    """`processing`: a worker says that it has it, and will renew its lease in Redis if it is alive.

    `queued_at`: since when it waits, which with its class is its place among all that is live.
    """

    message: Message
    retry_at: float | None
    processing: bool = False
    front: bool = False
    queued_at: datetime | None = None


class ReconcileStore(Protocol):
    """For the reconciler: what Postgres believes is in Redis."""

    async def live_page(
        self, after: LiveMessage | None, limit: int, *, also_unpublished: bool = False
    ) -> Sequence[LiveMessage]:
        """The live jobs that come next, class by class in the order in which they wait.

        Those whose message may still be in the outbox only when asked for.
        """
        ...

    async def republish(self, messages: Sequence[Message]) -> int:
        """Write outbox rows, by arrival, for those that are still live under the same ticket; how many."""
        ...

    async def oldest_s(self) -> Mapping[JobClass, float]:
        """How long the oldest job of each class that waits for its turn has waited."""
        ...

    async def dead_page(self, after: JobId | None, limit: int) -> Sequence[tuple[JobId, int]]:
        """The next dead letters, each with its job's ticket."""
        ...

    async def republish_dead(self, jobs: Sequence[JobId]) -> int:
        """Write outbox rows for those of these jobs that are dead; how many."""
        ...


@dataclass(frozen=True, slots=True)
class RouterCancel:
    """A cancelled job of which something may be at a router: at these places, under leases below `fence`.

    `age_s` says for how long the routers have not been told.
    """

    job: JobId
    fence: int
    places: tuple[Place, ...]
    age_s: float = 0.0


class RouterCancels(Protocol):
    async def take(self, limit: int) -> Sequence[RouterCancel]:
        """Those that are due; they come again later, and later still, until they are settled."""
        ...

    async def settle(self, job: JobId, *, ran: bool) -> None:
        """The routers know. What was paid comes back, unless something `ran`."""
        ...


class Pauses(Protocol):
    """Which classes an operator has paused."""

    async def paused(self) -> frozenset[JobClass]: ...

    async def pause(self, job_class: JobClass) -> None: ...

    async def resume(self, job_class: JobClass) -> None: ...


class Promotions(Protocol):
    async def promote(self, source: JobClass, target: JobClass, waited_s: float, limit: int) -> int:
        """Raise up to `limit` queued jobs of `source` that have waited longer, oldest first; how many.

        One transaction: the class, JOB_PROMOTED, and an outbox row with the same ticket and the new class.
        Pushing that row moves the message that is there; there is never a second one.
        """
        ...


class MessageQueue(Protocol):
    async def push(self, entries: Sequence[OutboxEntry]) -> int:
        """Add messages by topic in one round trip; those that Redis knows already change nothing.

        A grant goes to a pool that waits, if one does, and is kept nowhere; a second try goes without it.
        """
        ...

    def begin_push(self, entry: OutboxEntry) -> Callable[[], Awaitable[int]] | None:
        """The same for one with a grant, which may come too late when it waits: it is on its way when this
        returns, and what comes back is called for the rest. None, and nothing was done, if it cannot go now.
        """
        ...

    async def claim(
        self, classes: Sequence[JobClass], limit: int, worker: str, pool: str = ""
    ) -> Sequence[Message]:
        """Take up to `limit`: paid front first, then the lanes in turn, class by class in the given order.

        A pool that names itself and gets less than it asked for may be handed the next message at once.
        """
        ...

    async def ack(self, messages: Sequence[Message]) -> int:
        """Forget messages that are done with, wherever they are, and wake those who watch their jobs."""
        ...

    async def tell(self, jobs: Sequence[JobId]) -> None:
        """Wake those who watch these jobs."""
        ...

    async def extend(self, messages: Sequence[Message], worker: str) -> Sequence[Message]:
        """Renew this worker's leases; those that another worker has leased are returned."""
        ...

    async def give_back(self, messages: Sequence[Message], worker: str) -> int:
        """Return messages that this worker has leased to the front of their lane."""
        ...

    async def reclaim(self, limit: int) -> Sequence[Message]:
        """Return messages whose lease has ended to the front of their lane."""
        ...

    async def take_due(self, limit: int) -> int:
        """Move due retries to their lane."""
        ...

    async def misplaced(self, live: Sequence[LiveMessage]) -> Sequence[Message]:
        """Those that Redis does not hold, holds in a lower class, or not in front though that was paid."""
        ...

    async def put_back(self) -> int:
        """Find messages that nobody would ever claim, because they are not where Redis says; how many."""
        ...

    async def identity(self) -> str:
        """Names the run of the server: another name means that it restarted or was replaced."""
        ...

    async def epoch(self) -> str | None:
        """Since when the queue holds all that is live; None when it came back empty."""
        ...

    async def begin_epoch(self, epoch: str) -> bool:
        """Say that everything live is here again; false when another process said so first."""
        ...


class Router(Protocol):
    async def infer(self, request: InferenceRequest, *, again: bool = False) -> InferenceView:
        """Run to a terminal state; raises `RouterBusy` or `RouterUnreachable` when it was not taken.

        `again`: it may be running somewhere already, and is to be looked for first.
        """
        ...


@dataclass(frozen=True, slots=True)
class LaneCount:
    """The counters of a lane, over all classes."""

    lane: str
    pending: int
    running: int


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """A lane of a class: what waits in it, and what runs of the lane in any class."""

    job_class: JobClass
    lane: str
    pending: int
    running: int


@dataclass(frozen=True, slots=True)
class QueueStats:
    """What Redis holds now. `waiting` counts lanes and front of each class."""

    waiting: Mapping[JobClass, int]
    front: Mapping[JobClass, int]
    retry: int
    dead: int
    leased: int
    paused: frozenset[JobClass]
    lanes: Sequence[LaneLoad]
    overdue: int = 0
    next_retry_at: float | None = None


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where a message waits. `ahead` counts the messages that are served before it as things stand."""

    job_class: JobClass
    lane: str
    ahead: int
    ahead_in_lane: int
    active_lanes: int
    front: bool


@dataclass(frozen=True, slots=True)
class Upcoming:
    """Jobs in the order of service, listed up to a bound, and how many there are in all."""

    running: Sequence[JobId]
    next_up: Sequence[JobId]
    retrying: Sequence[JobId]
    leased: int
    waiting: int
    retries: int


class QueueAdmin(Protocol):
    """What the API asks of the queue, and what an operator may do to it."""

    async def stats(self) -> QueueStats: ...

    async def upcoming(self, limit: int) -> Upcoming:
        """What runs, and what is served next: class by class, front first, lanes in turn."""
        ...

    async def place(self, message: Message) -> QueuePlace | None:
        """None when it does not wait in a lane (leased, in the retry set, or not there)."""
        ...

    async def discard(self, messages: Sequence[Message]) -> int:
        """Remove messages that nobody needs any more (cancelled jobs), wherever they wait."""
        ...

    async def tell(self, job: JobId) -> None:
        """Wake those who watch this job."""
        ...

    async def paused(self) -> frozenset[JobClass]: ...

    async def pause(self, job_class: JobClass) -> None: ...

    async def resume(self, job_class: JobClass) -> None: ...

    async def open(self) -> None:
        """Say that the paused classes are known: nothing is claimed before."""
        ...

    async def reset_lanes(self) -> Sequence[LaneCount]:
        """Recount every lane's counters from what is there; the counters that were wrong, as they are now."""
        ...

    async def dead(self) -> Mapping[JobId, int]:
        """The mirror of the dead letters: the ticket of each job in it."""
        ...

    async def forget_dead(self, jobs: Sequence[JobId] | None) -> int:
        """Remove dead letters from the mirror; all of them when `jobs` is None."""
        ...

    async def ping(self) -> None:
        """Raises when Redis does not answer."""
        ...


@dataclass(frozen=True, slots=True)
class Swept:
    """What one round of the janitor removed; `more` when it stopped at its limit."""

    events: int
    idempotency_keys: int
    jobs: int
    more: bool


class RetentionStore(Protocol):
    """For the janitor: old things, removed in bounded steps."""

    async def sweep(self, retention: RetentionConfig, limit: int) -> Swept: ...
