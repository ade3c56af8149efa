"""Adds the records of usage to the hourly sums."""

from dataclasses import dataclass

from beacon_lifecycle import RunResult
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.usage import UsageRollUp


@dataclass(frozen=True, slots=True)
class UsageRollUpLoop:
    store: UsageRollUp
    metrics: LoopMetrics
    batch: int = 5_000

    async def run_once(self) -> RunResult:
        added = await self.store.roll_up(self.batch)
        for one in added:
            place = one.model, one.region
            self.metrics.gpu_runs.labels(*place, "failed").inc(one.failed)
            self.metrics.gpu_runs.labels(*place, "completed").inc(one.runs - one.failed)
            self.metrics.gpu_seconds.labels(*place).inc(one.gpu_s)
            self.metrics.tokens.labels(*place, "in").inc(one.tokens_in)
            self.metrics.tokens.labels(*place, "out").inc(one.tokens_out)
        count = sum(one.records for one in added)
        return RunResult(count, more=count == self.batch)
