"""Reads outbox lag, queue depth, queue age and the demand for GPUs from the servers for /metrics."""

from dataclasses import dataclass
from math import nan

from beacon_config import LiveConfig
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import RunResult
from beacon_runner.domain.queue.demand import demand_of
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.demand import DemandStore
from beacon_runner.ports.outbox import Outbox
from beacon_runner.ports.queue_admin import QueueAdmin
from beacon_runner.ports.reconcile import ReconcileStore
from beacon_runner.ports.router import RouterPort


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


@dataclass(frozen=True, slots=True)
class DemandCollector:
    """What `/admin/demand` answers, for autoscalers that read Prometheus."""

    store: DemandStore
    router: RouterPort
    live: LiveConfig
    metrics: LoopMetrics

    async def run_once(self) -> RunResult:
        unsent = await self.store.unsent()
        routers = [status.queues for status in await self.router.status() if status.queues is not None]
        found = demand_of(self.live.current, unsent, routers).models
        metrics = self.metrics
        for gauge in (
            metrics.demand_waiting,
            metrics.demand_gpu_seconds,
            metrics.demand_slots,
            metrics.demand_wait,
        ):
            gauge.clear()  # models may have been removed
        for one in found:
            labels = one.model, one.region
            metrics.demand_waiting.labels(*labels).set(one.waiting)
            metrics.demand_gpu_seconds.labels(*labels).set(one.gpu_seconds)
            metrics.demand_slots.labels(*labels).set(one.slots_needed)
            for quantile, wait_s in (("0.5", one.wait_p50_s), ("0.9", one.wait_p90_s)):
                metrics.demand_wait.labels(*labels, quantile).set(nan if wait_s is None else wait_s)
        return RunResult(len(found))
