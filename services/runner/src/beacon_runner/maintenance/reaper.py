"""Returns messages of dead workers to their lane."""

from dataclasses import dataclass

import structlog

from beacon_lifecycle import RunResult
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.queue import MessageQueue

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseReaper:
    queue: MessageQueue
    metrics: LoopMetrics
    batch: int = 1_000

    async def run_once(self) -> RunResult:
        ended = await self.queue.reclaim(self.batch)
        if ended:
            log.warning("leases_expired", count=len(ended), first=str(ended[0].job))
            self.metrics.reclaimed.inc(len(ended))
        return RunResult.limited(len(ended), self.batch)
