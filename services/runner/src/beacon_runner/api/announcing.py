"""What happens to new jobs once they are committed: a few go to Redis at once, many are left to the relay."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from beacon_runner.domain.messages import Message, OutboxEntry, Topic
from beacon_runner.loops.express import LARGEST_GROUP, Express
from beacon_runner.store.submissions import NewJob


@dataclass(frozen=True, slots=True)
class Announcer:
    express: Express
    ring: Callable[[], None]

    @property
    def carries(self) -> int:
        return LARGEST_GROUP

    def __call__(self, jobs: Sequence[NewJob], numbers: Sequence[int]) -> None:
        if len(jobs) > LARGEST_GROUP:
            self.ring()
        elif jobs:
            self.express.offer([_entry(job) for job in jobs], numbers)


def _entry(job: NewJob) -> OutboxEntry:
    """As the submitting statement has written it to the outbox."""
    message = Message(job.id, ticket=1, stage=0, attempt=1, job_class=job.job_class, lane=job.lane)
    return OutboxEntry(Topic.JOBS, message, batch=job.batch)
