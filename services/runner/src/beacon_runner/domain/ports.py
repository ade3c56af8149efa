"""What the loops need from the outside, as small as they need it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from beacon_contracts.ids import JobId
from beacon_contracts.inference import InferenceRequest, InferenceView
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.messages import Message, OutboxEntry
from beacon_runner.domain.work import ClaimedJob, StageReport


class Outbox(Protocol):
    def take(self, limit: int) -> AbstractAsyncContextManager[Sequence[OutboxEntry]]:
        """Up to `limit` entries; they are gone when the block ends well and back when it does not."""
        ...


class ClaimStore(Protocol):
    async def claim(self, messages: Sequence[Message], worker: str) -> Sequence[ClaimedJob]:
        """Fence each job that its message still speaks for; the others are missing from the answer."""
        ...

    async def record(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        """Apply each report whose fence still holds, in one transaction; the jobs that were applied."""
        ...


@dataclass(frozen=True, slots=True)
class LiveMessage:
    message: Message
    retry_at: float | None


class LiveJobs(Protocol):
    """For the reconciler: what Postgres believes is in Redis."""

    async def live_page(self, after: JobId | None, limit: int) -> Sequence[LiveMessage]: ...

    async def republish(self, messages: Sequence[Message]) -> int:
        """Write outbox rows for those that are still live under the same ticket; how many."""
        ...


class MessageQueue(Protocol):
    async def push(self, entries: Sequence[OutboxEntry]) -> int:
        """Add messages by topic in one round trip; those that Redis knows already change nothing."""
        ...

    async def claim(self, classes: Sequence[JobClass], limit: int, worker: str) -> Sequence[Message]:
        """Take up to `limit`: paid front first, then the lanes in turn, class by class in the given order."""
        ...

    async def ack(self, messages: Sequence[Message]) -> int: ...

    async def extend(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Renew leases; those that are no longer leased to anybody are returned."""
        ...

    async def give_back(self, messages: Sequence[Message]) -> int:
        """Return leased messages to the front of their lane."""
        ...

    async def reclaim(self, limit: int) -> Sequence[Message]:
        """Return messages whose lease has ended to the front of their lane."""
        ...

    async def take_due(self, limit: int) -> int:
        """Move due retries to their lane."""
        ...

    async def unknown(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those that Redis does not hold anywhere."""
        ...


class Router(Protocol):
    async def infer(self, request: InferenceRequest) -> InferenceView:
        """Run to a terminal state; raises `RouterBusy` or `RouterUnreachable` when it was not taken."""
        ...

    async def cancel(self, request_id: str, region: str) -> None: ...
