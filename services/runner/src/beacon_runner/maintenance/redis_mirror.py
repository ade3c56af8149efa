"""Keeps what Redis repeats from Postgres in line with it: paused classes and the list of dead letters."""

from dataclasses import dataclass

import structlog

from beacon_contracts.ids import JobId
from beacon_runner.ports.pauses import PauseStore
from beacon_runner.ports.queue_admin import QueueAdmin
from beacon_runner.ports.reconcile import ReconcileStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Mirror:
    live: ReconcileStore
    pauses: PauseStore
    desk: QueueAdmin
    page: int = 5_000

    async def restore_pauses(self) -> None:
        # What is there is read first: what an operator pauses now is wanted before it is there.
        there, wanted = await self.desk.paused(), await self.pauses.paused()
        for job_class in wanted - there:
            await self.desk.pause(job_class)
        for job_class in there - wanted:
            await self.desk.resume(job_class)
        await self.desk.open()
        if wanted != there:
            log.warning("pauses_restored", paused=sorted(wanted), before=sorted(there))

    async def compare_letters(self) -> int:
        """Publish letters that the mirror lacks and take out those that are no more; how many."""
        mirrored = dict(await self.desk.dead())
        missing: list[JobId] = []
        after: JobId | None = None
        while letters := await self.live.dead_page(after, self.page):
            missing += [job for job, ticket in letters if mirrored.pop(job, None) != ticket]
            after = letters[-1][0]
        extra = list(mirrored)
        if missing:
            await self.live.republish_dead(missing)
        if extra:
            await self.desk.forget_dead(extra)
        if missing or extra:
            log.warning("dead_letters_mirrored_again", missing=len(missing), extra=len(extra))
        return len(missing) + len(extra)
