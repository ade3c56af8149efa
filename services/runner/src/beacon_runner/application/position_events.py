"""Events about a job's position, stored while a client watches the job, at a limited rate."""

from dataclasses import dataclass, field

from beacon_contracts.events import EventType
from beacon_contracts.ids import JobId
from beacon_lifecycle import Clock
from beacon_runner.application.queue_position import JobPosition, PositionService
from beacon_runner.domain.execution.stage_result import EventDraft
from beacon_runner.domain.jobs.commands import JobVersion
from beacon_runner.domain.jobs.records import JobRecord
from beacon_runner.ports.jobs import JobCommands

INTERVAL_S = 3.0
MAX_JOBS = 10_000


@dataclass(slots=True)
class PositionEvents:
    """The events are stored like all others, so that later clients read the same sequence."""

    positions: PositionService
    commands: JobCommands
    clock: Clock
    _last: dict[JobId, tuple[float, JobPosition]] = field(default_factory=dict)

    async def update(self, job: JobRecord) -> bool:
        """Store an event if the position has changed. True when there is a new event to read."""
        checked_at, before = self._last.get(job.id, (float("-inf"), None))
        if self.clock.now() - checked_at < INTERVAL_S:
            return False
        current = await self.positions.of(job)
        self._remember(job.id, current)
        unchanged = before is not None and (before.at, before.position) == (current.at, current.position)
        if current.position is None or unchanged:
            return False
        return await self.commands.add_position_event(JobVersion.of(job), _event(current), current.position)

    def _remember(self, job: JobId, position: JobPosition) -> None:
        self._last.pop(job, None)
        self._last[job] = (self.clock.now(), position)
        if len(self._last) > MAX_JOBS:
            del self._last[next(iter(self._last))]


def _event(current: JobPosition) -> EventDraft:
    data = {"position": current.position, "estimated_wait_s": current.estimated_wait_s}
    if current.at == "router":
        return EventDraft(EventType.WAITING, data | {"waiting_for": current.waiting_for})
    return EventDraft(EventType.QUEUE_POSITION, data)
