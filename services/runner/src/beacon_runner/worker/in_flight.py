"""What the jobs of this process occupy, from their claim until they are recorded."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, inf
from typing import NamedTuple

from beacon_contracts.ids import JobId

LANE_SHARE = 16


class _Job(NamedTuple):
    lane: str
    bytes: int


@dataclass(slots=True)
class _Lane:
    jobs: int = 0
    bytes: int = 0


@dataclass
class InFlight:
    """Bounded by jobs and by the bytes of their inputs.

    A lane may occupy a sixteenth of what is free, at least one job: lanes whose jobs wait at the routers
    leave room for others, also if they come one after another. `max_job_bytes` is the largest input: a
    claim leaves room for it.
    """

    max_jobs: int
    max_bytes: float = inf
    max_job_bytes: int = 1
    lane_jobs: int = 1_000
    on_room: list[Callable[[], None]] = field(default_factory=list)
    """Called when a job has left."""
    _jobs: dict[JobId, _Job] = field(default_factory=dict)
    _lanes: dict[str, _Lane] = field(default_factory=dict)
    _bytes: int = 0

    @property
    def room(self) -> int:
        """How many jobs a claim may take now. It is a part of what is free: all may be of one lane."""
        free_jobs = self.max_jobs - len(self._jobs)
        largest_jobs = int(min((self.max_bytes - self._bytes) / self.max_job_bytes, self.max_jobs))
        return max(0, min(ceil(free_jobs / (2 * LANE_SHARE)), ceil(largest_jobs / 2)))

    def full_lanes(self) -> list[str]:
        """The lanes that may not occupy more now."""
        jobs = max(1, min(self.lane_jobs, (self.max_jobs - len(self._jobs)) // LANE_SHARE))
        size = max(1, (self.max_bytes - self._bytes) / LANE_SHARE)
        if len(self._jobs) < jobs and self._bytes < size:
            return []
        return [name for name, lane in self._lanes.items() if lane.jobs >= jobs or lane.bytes >= size]

    def add(self, job: JobId, lane: str, size: int) -> None:
        self._jobs[job] = _Job(lane, size)
        self._bytes += size
        use = self._lanes.setdefault(lane, _Lane())
        use.jobs += 1
        use.bytes += size

    def remove(self, job: JobId) -> None:
        lane, size = self._jobs.pop(job)
        self._bytes -= size
        use = self._lanes[lane]
        use.jobs -= 1
        use.bytes -= size
        if not use.jobs:
            del self._lanes[lane]
        for callback in self.on_room:
            callback()

    @property
    def jobs(self) -> int:
        return len(self._jobs)

    @property
    def bytes(self) -> int:
        return self._bytes
