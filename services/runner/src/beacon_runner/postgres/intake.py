"""The way in for new jobs: concurrent submissions share commits."""

from collections.abc import Sequence

from beacon_contracts.ids import UserId
from beacon_lifecycle import Clock
from beacon_runner.domain.quotas import Allowance, Use
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.group_commit import GroupCommit
from beacon_runner.postgres.limited_submissions import GuardedSubmissions
from beacon_runner.postgres.queue_capacity import QueueRoom
from beacon_runner.postgres.submissions import Announce, Answer, NewJob


class Intake:
    """Two lines, so that users without limits never wait for somebody else's count."""

    def __init__(
        self, database: Database, clock: Clock, queue_size: int, announce: Announce | None = None
    ) -> None:
        self._guarded = GuardedSubmissions(database, QueueRoom(database, clock, queue_size), announce)
        self._free: GroupCommit[NewJob, Answer] = GroupCommit("submissions", self._guarded.submit)
        self._limited: GroupCommit[NewJob, Answer] = GroupCommit(
            "limited-submissions", self._guarded.submit_limited
        )

    async def submit(self, jobs: Sequence[NewJob]) -> Sequence[Answer]:
        """One user's jobs; returns after the commit."""
        line = self._free if jobs[0].allowance is None else self._limited
        return await line.submit(jobs)

    async def submit_batch(self, jobs: Sequence[NewJob], key: str, request_hash: bytes) -> Sequence[Answer]:
        return await self._guarded.submit_batch(jobs, key, request_hash)

    async def use_of(self, user: UserId, allowance: Allowance | None) -> Use:
        return await self._guarded.use_of(user, allowance)

    async def close(self) -> None:
        """What was accepted is written first."""
        await self._free.close()
        await self._limited.close()
        await self._guarded.close()
