"""The worker's writes to Postgres: claim a job, record its results."""

from collections.abc import Sequence
from typing import Protocol

from beacon_contracts.ids import JobId
from beacon_runner.domain.execution.stage_result import ClaimedJob, StageReport
from beacon_runner.domain.queue.messages import Message


class ClaimStore(Protocol):
    async def claim(self, messages: Sequence[Message], worker: str) -> Sequence[ClaimedJob]:
        """Fence the jobs whose message is current; jobs with an outdated message are left out.

        At most one message per job.
        """
        ...

    async def record(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        """Apply each report whose fence is current, in one transaction; returns the applied jobs."""
        ...
