"""Tells those who watch a job how its place changes: only while somebody watches, and not too often."""

from dataclasses import dataclass, field

from beacon_contracts.events import EventType
from beacon_contracts.ids import JobId
from beacon_contracts.jobs import JobState
from beacon_lifecycle import Clock
from beacon_runner.application.queue_position import PositionService, Standing
from beacon_runner.domain.stage_result import EventDraft
from beacon_runner.postgres.job_commands import JobControl
from beacon_runner.postgres.job_queries import JobRecord

EVERY_S = 3.0
MOST = 10_000


@dataclass(slots=True)
class _Told:
    at: float
    standing: Standing | None = None


@dataclass(slots=True)
class PositionEvents:
    """The events are stored like all others, so that whoever comes later sees the same story."""

    standings: PositionService
    control: JobControl
    clock: Clock
    _told: dict[JobId, _Told] = field(default_factory=dict)

    async def tell(self, record: JobRecord) -> bool:
        """Whether there is a new event to read."""
        told = self._told.get(record.head.id)
        if told is not None and self.clock.now() - told.at < EVERY_S:
            return False
        standing = await self.standings.of(record)
        self._remember(record.head.id, standing)
        if standing.position is None or (told is not None and _same(told.standing, standing)):
            return False
        return await self.control.tell_standing(record, _event(record, standing), standing.position)

    def _remember(self, job: JobId, standing: Standing) -> None:
        self._told.pop(job, None)
        self._told[job] = _Told(self.clock.now(), standing)
        if len(self._told) > MOST:
            del self._told[next(iter(self._told))]


def _same(one: Standing | None, other: Standing) -> bool:
    return one is not None and (one.at, one.position) == (other.at, other.position)


def _event(record: JobRecord, standing: Standing) -> EventDraft:
    data = {"position": standing.position, "estimated_wait_s": standing.estimated_wait_s}
    if record.head.state is JobState.PROCESSING:
        return EventDraft(EventType.WAITING, data | {"waiting_for": standing.waiting_for})
    return EventDraft(EventType.QUEUE_POSITION, data)
