"""The classes that an operator has paused."""

from typing import Protocol

from beacon_contracts.tiers import JobClass


class PauseStore(Protocol):
    async def paused(self) -> frozenset[JobClass]: ...

    async def pause(self, job_class: JobClass) -> None: ...

    async def resume(self, job_class: JobClass) -> None: ...
