"""Returns messages of dead workers; the worker that claims one too often delivered ends it as poison."""

from dataclasses import dataclass

import structlog

from beacon_runner.domain.ports import MessageQueue
from beacon_runner.loops.metrics import LoopMetrics
from beacon_runner.loops.rounds import Round

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseReaper:
    queue: MessageQueue
    metrics: LoopMetrics
    batch: int = 1_000

    async def run_once(self) -> Round:
        ended = await self.queue.reclaim(self.batch)
        if ended:
            log.warning("leases_ended", count=len(ended), first=str(ended[0].job))
            self.metrics.reclaimed.inc(len(ended))
        return Round.limited(len(ended), self.batch)
