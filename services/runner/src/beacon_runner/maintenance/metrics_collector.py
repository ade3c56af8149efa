"""Reads outbox lag, queue depth and queue age from the servers for /metrics."""

from dataclasses import dataclass

from beacon_contracts.tiers import JobClass
from beacon_lifecycle import RunResult
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.outbox import Outbox
from beacon_runner.ports.queue_admin import QueueAdmin
from beacon_runner.ports.reconcile import ReconcileStore


@dataclass(frozen=True, slots=True)
class MetricsCollector:
    outbox: Outbox
    admin: QueueAdmin
    metrics: LoopMetrics

    async def run_once(self) -> RunResult:
        lag = await self.outbox.lag()
        self.metrics.outbox_entries.set(lag.entries)
        self.metrics.outbox_lag.set(lag.oldest_s)
        stats = await self.admin.stats()
        for job_class, depth in stats.waiting.items():
            self.metrics.waiting.labels(job_class).set(depth)
        counts = {"retry": stats.retry, "dead": stats.dead, "leased": stats.leased, "overdue": stats.overdue}
        for place, count in counts.items():
            self.metrics.queued.labels(place).set(count)
        return RunResult(1)


@dataclass(frozen=True, slots=True)
class QueueAgeCollector:
    """Separate from the others: it needs only Postgres."""

    live: ReconcileStore
    metrics: LoopMetrics

    async def run_once(self) -> RunResult:
        ages = await self.live.oldest_s()
        for job_class in JobClass:
            self.metrics.oldest.labels(job_class).set(ages.get(job_class, 0.0))
        return RunResult(1)
