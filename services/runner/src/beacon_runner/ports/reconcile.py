"""The live jobs of Postgres, for comparing them with Redis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.queue.messages import Message


@dataclass(frozen=True, slots=True)
class LiveMessage:
    """The message that Redis should hold for a live job.

    `claimed`: a worker has claimed the job and, if alive, renews its lease in Redis.
    `queued_at`: since when the job waits; with its class this is its place among all live jobs.
    """

    message: Message
    retry_at: float | None
    claimed: bool = False
    front: bool = False
    queued_at: datetime | None = None


class ReconcileStore(Protocol):
    async def live_page(
        self, after: LiveMessage | None, limit: int, *, also_unpublished: bool = False
    ) -> Sequence[LiveMessage]:
        """The next live jobs, class by class by arrival.

        Jobs whose message may still be in the outbox are included only with `also_unpublished`.
        """
        ...

    async def republish(self, messages: Sequence[Message]) -> int:
        """Write outbox rows, by arrival, for the jobs still live under the same generation; how many."""
        ...

    async def oldest_s(self) -> Mapping[JobClass, float]:
        """How long the oldest queued job of each class has waited."""
        ...

    async def dead_page(self, after: JobId | None, limit: int) -> Sequence[tuple[JobId, int]]:
        """The next dead letters, each with its job's generation."""
        ...

    async def republish_dead(self, jobs: Sequence[JobId]) -> int:
        """Write outbox rows for those of these jobs that are dead letters; how many."""
        ...
