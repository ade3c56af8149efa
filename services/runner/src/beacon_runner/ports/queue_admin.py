"""The queue as the API and an operator see it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.queue.messages import Message


@dataclass(frozen=True, slots=True)
class LaneCount:
    """The counters of a lane, over all classes."""

    lane: str
    pending: int
    running: int


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """A lane of a class: what waits in it, and what runs of the lane in any class."""

    job_class: JobClass
    lane: str
    pending: int
    running: int


@dataclass(frozen=True, slots=True)
class QueueStats:
    """What Redis holds now. `waiting` counts lanes and front of each class."""

    waiting: Mapping[JobClass, int]
    front: Mapping[JobClass, int]
    retry: int
    dead: int
    leased: int
    paused: frozenset[JobClass]
    lanes: Sequence[LaneLoad]
    overdue: int = 0


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where a message waits. `ahead` counts the messages that are served before it in the current state."""

    job_class: JobClass
    lane: str
    ahead: int
    ahead_in_lane: int
    active_lanes: int
    front: bool


@dataclass(frozen=True, slots=True)
class Upcoming:
    """Jobs in the order of service, listed up to a bound, and how many there are in total."""

    running: Sequence[JobId]
    next_up: Sequence[JobId]
    retrying: Sequence[JobId]
    leased: int
    waiting: int
    retries: int


class QueueAdmin(Protocol):
    async def stats(self) -> QueueStats: ...

    async def leased(self, lanes: Sequence[str]) -> Mapping[str, int]:
        """How many messages of each lane are leased."""
        ...

    async def upcoming(self, limit: int) -> Upcoming:
        """What runs, and what is served next: class by class, front first, lanes round-robin."""
        ...

    async def place(self, message: Message) -> QueuePlace | None:
        """None when it does not wait in a lane (leased, in the retry set, or missing)."""
        ...

    async def discard(self, messages: Sequence[Message]) -> int:
        """Remove messages of cancelled jobs, wherever they wait."""
        ...

    async def notify_watchers(self, job: JobId) -> None:
        """Notify the watchers of this job."""
        ...

    async def paused(self) -> frozenset[JobClass]: ...

    async def pause(self, job_class: JobClass) -> None: ...

    async def resume(self, job_class: JobClass) -> None: ...

    async def open(self) -> None:
        """Declare that the paused classes are known; nothing is claimed before."""
        ...

    async def reset_lanes(self) -> Sequence[LaneCount]:
        """Recount every lane's counters from the messages; returns the corrected ones."""
        ...

    async def dead(self) -> Mapping[JobId, int]:
        """The mirror of the dead letters: the generation of each job in it."""
        ...

    async def forget_dead(self, jobs: Sequence[JobId] | None) -> int:
        """Remove dead letters from the mirror; all of them when `jobs` is None."""
        ...

    async def ping(self) -> None:
        """Raises when Redis does not answer."""
        ...
