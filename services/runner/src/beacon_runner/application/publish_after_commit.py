"""What happens to new jobs once they are committed: a few go to Redis at once, many are left to the relay."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from beacon_runner.domain.grants import grant_of
from beacon_runner.domain.messages import Message, OutboxEntry, Topic
from beacon_runner.domain.stage_result import ClaimedJob
from beacon_runner.maintenance.inline_publisher import LARGEST_GROUP, Express
from beacon_runner.postgres.new_ids import batch_of
from beacon_runner.postgres.submissions import NewJob


@dataclass(frozen=True, slots=True)
class Announcer:
    express: Express
    ring: Callable[[], None]

    @property
    def carries(self) -> int:
        return LARGEST_GROUP

    def __call__(self, jobs: Sequence[NewJob], numbers: Sequence[int], fence: int = 0) -> None:
        if len(jobs) > LARGEST_GROUP:
            self.ring()
        elif jobs:
            self.express.offer([_entry(job, fence) for job in jobs], numbers)


def _entry(job: NewJob, fence: int) -> OutboxEntry:
    """As the submitting statement has written it to the outbox, and the fence that it granted."""
    grant = grant_of(_claimed(job, fence)) if fence else ""
    message = Message(job.id, 1, 0, 1, job.job_class, job.lane, grant=grant)
    return OutboxEntry(Topic.JOBS, message, batch=batch_of(job.id) if job.batch else None)


def _claimed(job: NewJob, fence: int) -> ClaimedJob:
    one = job.admitted
    return ClaimedJob(
        job.id, job.user, fence, 1, 0, one.stages, 1, one.kind, one.spec, {}, job.tier, front=False
    )
