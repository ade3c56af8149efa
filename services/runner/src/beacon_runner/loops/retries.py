"""Moves retries whose moment has come to their lane."""

from dataclasses import dataclass

from beacon_runner.domain.ports import MessageQueue
from beacon_runner.loops.metrics import LoopMetrics
from beacon_runner.loops.rounds import Round


@dataclass(frozen=True, slots=True)
class RetryHandler:
    queue: MessageQueue
    metrics: LoopMetrics
    batch: int = 1_000

    async def run_once(self) -> Round:
        moved = await self.queue.take_due(self.batch)
        self.metrics.retries.inc(moved)
        return Round.limited(moved, self.batch)
