"""Raises jobs that have waited long to the next class, so that nobody waits forever behind better tiers."""

from dataclasses import dataclass

from beacon_config.tenancy import PromotionConfig
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.ports import Promotions
from beacon_runner.loops.metrics import LoopMetrics
from beacon_runner.loops.rounds import Round


@dataclass(frozen=True, slots=True)
class Promoter:
    """The store raises the job and writes an outbox row; pushing that row moves the one message there is."""

    promotions: Promotions
    config: PromotionConfig
    metrics: LoopMetrics
    batch: int = 500

    async def run_once(self) -> Round:
        # Medium first: a job that is raised from low in this round is not raised again in it.
        high = await self._promote(JobClass.MEDIUM, JobClass.HIGH, self.config.medium_to_high_after_s)
        medium = await self._promote(JobClass.LOW, JobClass.MEDIUM, self.config.low_to_medium_after_s)
        return Round(high + medium, more=max(high, medium) >= self.batch)

    async def _promote(self, source: JobClass, target: JobClass, waited_s: float) -> int:
        count = await self.promotions.promote(source, target, waited_s, self.batch)
        self.metrics.promoted.labels(target).inc(count)
        return count
