"""Promotes jobs that have waited long to the next class."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from beacon_lifecycle import RunResult
from beacon_runner.domain.queue.classes import Promotion
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.promotions import PromotionStore


@dataclass(frozen=True, slots=True)
class Promoter:
    """The store changes the class and writes an outbox row; pushing that row moves the existing message."""

    promotions: PromotionStore
    steps: Callable[[], Sequence[Promotion]]
    metrics: LoopMetrics
    batch: int = 500

    async def run_once(self) -> RunResult:
        counts = [await self._promote(step) for step in self.steps()]
        return RunResult(sum(counts), more=any(count >= self.batch for count in counts))

    async def _promote(self, step: Promotion) -> int:
        count = await self.promotions.promote(step.source, step.target, step.waited_s, self.batch)
        self.metrics.jobs_promoted.labels(step.target).inc(count)
        return count
