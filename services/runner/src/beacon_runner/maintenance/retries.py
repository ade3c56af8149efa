"""Moves due retries to their lane."""

from dataclasses import dataclass

from beacon_lifecycle import RunResult
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class RetryHandler:
    queue: MessageQueue
    metrics: LoopMetrics
    batch: int = 1_000

    async def run_once(self) -> RunResult:
        moved = await self.queue.promote_due_retries(self.batch)
        self.metrics.retries.inc(moved)
        return RunResult.limited(moved, self.batch)
