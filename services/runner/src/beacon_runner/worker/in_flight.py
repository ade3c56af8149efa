"""What the jobs of this process occupy, from their claim until they are recorded."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, inf

LANE_SHARE = 16


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
    jobs: int = field(default=0, init=False)
    bytes: int = field(default=0, init=False)
    _lanes: dict[str, _Lane] = field(default_factory=dict, init=False)

    def claimable(self) -> tuple[int, list[str]]:
        """How many jobs a claim may take now, and the lanes that may not occupy more.

        The jobs are a part of what is free, because all of them may be of one lane.
        """
        free_jobs, free_bytes = self.max_jobs - self.jobs, self.max_bytes - self.bytes
        largest_jobs = int(min(free_bytes / self.max_job_bytes, self.max_jobs))
        jobs = max(0, min(ceil(free_jobs / (2 * LANE_SHARE)), ceil(largest_jobs / 2)))
        lane_jobs = max(1, min(self.lane_jobs, free_jobs // LANE_SHARE))
        lane_bytes = max(1, free_bytes / LANE_SHARE)
        if self.jobs < lane_jobs and self.bytes < lane_bytes:
            return jobs, []
        lanes = self._lanes.items()
        return jobs, [name for name, use in lanes if use.jobs >= lane_jobs or use.bytes >= lane_bytes]

    def add(self, lane: str, size: int) -> None:
        self.jobs += 1
        self.bytes += size
        use = self._lanes.setdefault(lane, _Lane())
        use.jobs += 1
        use.bytes += size

    def remove(self, lane: str, size: int) -> None:
        self.jobs -= 1
        self.bytes -= size
        use = self._lanes[lane]
        use.jobs -= 1
        use.bytes -= size
        if not use.jobs:
            del self._lanes[lane]
        for callback in self.on_room:
            callback()
