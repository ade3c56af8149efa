"""Keeps what Redis repeats from Postgres in line with it: paused classes and the list of dead letters."""

from dataclasses import dataclass

import structlog

from beacon_contracts.ids import JobId
from beacon_runner.ports.pauses import PauseStore
from beacon_runner.ports.queue_admin import QueueAdmin
from beacon_runner.ports.reconcile import ReconcileStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RedisMirror:
    live: ReconcileStore
    pauses: PauseStore
    admin: QueueAdmin
    page: int = 5_000

    async def restore_pauses(self) -> None:
        # Redis is read first: an operator's pause is written to Postgres before Redis.
        there, wanted = await self.admin.paused(), await self.pauses.paused()
        for job_class in wanted - there:
            await self.admin.pause(job_class)
        for job_class in there - wanted:
            await self.admin.resume(job_class)
        await self.admin.open()
        if wanted != there:
            log.warning("pauses_restored", paused=sorted(wanted), before=sorted(there))

    async def compare_dead_letters(self) -> int:
        """Publish dead letters that the mirror lacks and remove extra ones; how many."""
        mirrored = dict(await self.admin.dead())
        missing: list[JobId] = []
        after: JobId | None = None
        while page := await self.live.dead_page(after, self.page):
            missing += [job for job, generation in page if mirrored.pop(job, None) != generation]
            after = page[-1][0]
        extra = list(mirrored)
        if missing:
            await self.live.republish_dead(missing)
        if extra:
            await self.admin.forget_dead(extra)
        if missing or extra:
            log.warning("dead_letter_mirror_repaired", missing=len(missing), extra=len(extra))
        return len(missing) + len(extra)
