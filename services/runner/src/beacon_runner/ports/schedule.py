"""Jobs that start, end or are admitted at a later time."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from beacon_contracts.ids import JobId, UserId
from beacon_contracts.tiers import Tier
from beacon_runner.domain.limits.job_quota import Allowance
from beacon_runner.domain.queue.messages import Message


class WaitingUser(NamedTuple):
    """A user whose jobs wait for a limit; `tier` is None if the user was deleted."""

    user: UserId
    tier: Tier | None
    disabled: bool


class ScheduleStore(Protocol):
    async def start_due(self, limit: int) -> int:
        """Queue jobs whose time has come; how many were due."""
        ...

    async def expire(self, limit: int) -> Sequence[Message]:
        """End live jobs whose time has come; their messages, which Redis may still have."""
        ...

    async def waiting_users(self, after: UserId | None, limit: int) -> Sequence[WaitingUser]: ...

    async def admit(self, user: UserId, allowance: Allowance | None, limit: int) -> int:
        """Start as many of the user's waiting jobs as the limits allow, oldest first; how many."""
        ...

    async def forget_admitted(self) -> None:
        """Remove admissions that no longer count for a limit."""
        ...


class EndedJobQueue(Protocol):
    """What the queue does about jobs that were ended outside of it."""

    async def discard(self, messages: Sequence[Message]) -> int: ...

    async def notify_watchers(self, job: JobId) -> None: ...
