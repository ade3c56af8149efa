"""The classes that an operator has paused."""

from typing import Protocol

from beacon_contracts.tiers import JobClass
from beacon_runner.domain.accounts.audit import Actor


class PauseStore(Protocol):
    async def paused(self) -> frozenset[JobClass]: ...

    async def pause(self, job_class: JobClass, *, by: Actor = ...) -> None: ...

    async def resume(self, job_class: JobClass, *, by: Actor = ...) -> None: ...
