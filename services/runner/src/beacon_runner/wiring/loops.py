"""Builds the services of the roles `worker` and `relay`, and what all roles need of Redis."""

import os
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from secrets import token_hex

from prometheus_client import CollectorRegistry
from redis.asyncio import Redis, RedisCluster

from beacon_config import BeaconConfig, Derived, LiveConfig
from beacon_lifecycle import Clock, Loop, RunResult, Service, WakeEvent
from beacon_redis import RedisAddress, Subscriber
from beacon_runner.domain.execution.retry_policy import RetryPolicy, RouterBackoff
from beacon_runner.domain.queue.classes import promotions
from beacon_runner.maintenance.cancel_notifier import CancelNotifier
from beacon_runner.maintenance.file_cleanup import FileCleanup
from beacon_runner.maintenance.metrics_collector import DemandCollector, MetricsCollector, QueueAgeCollector
from beacon_runner.maintenance.operations import OperationRunner
from beacon_runner.maintenance.promoter import Promoter
from beacon_runner.maintenance.publisher import OutboxPublisher
from beacon_runner.maintenance.reaper import LeaseReaper
from beacon_runner.maintenance.reconciler import Reconciler
from beacon_runner.maintenance.redis_mirror import RedisMirror
from beacon_runner.maintenance.retention import Retention
from beacon_runner.maintenance.retries import RetryHandler
from beacon_runner.maintenance.schedule import Expiry, LimitAdmission, ScheduledStarts
from beacon_runner.maintenance.usage_roll_up import UsageRollUpLoop
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.claims import ClaimStore
from beacon_runner.ports.operations import OperationSteps
from beacon_runner.ports.outbox import Outbox
from beacon_runner.ports.pauses import PauseStore
from beacon_runner.ports.promotions import PromotionStore
from beacon_runner.ports.reconcile import ReconcileStore
from beacon_runner.ports.retention import RetentionStore
from beacon_runner.ports.schedule import ScheduleStore
from beacon_runner.ports.usage import UsageRollUp
from beacon_runner.postgres.accounts.usage import PostgresUsage
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.jobs.operations import PostgresOperations
from beacon_runner.postgres.jobs.outbox import PostgresOutbox
from beacon_runner.postgres.jobs.pauses import PostgresPauses
from beacon_runner.postgres.jobs.reconcile import PostgresReconcile
from beacon_runner.postgres.jobs.retention import PostgresRetention
from beacon_runner.postgres.jobs.schedule import PostgresSchedule
from beacon_runner.redis_queue import Layout, RedisQueue, RedisQueueAdmin
from beacon_runner.redis_queue.keys import OUTBOX_CHANNEL, WAKE_CHANNEL
from beacon_runner.redis_queue.lease_renewal import RedisLeaseRenewal
from beacon_runner.redis_queue.outbox_notifier import OutboxNotifier
from beacon_runner.worker.executor import Executor
from beacon_runner.worker.heartbeat import Heartbeat
from beacon_runner.worker.in_flight import InFlight
from beacon_runner.worker.job_runner import JobRunner
from beacon_runner.worker.pending_reports import PendingReports
from beacon_runner.worker.pool import ClaimDependencies, Pool
from beacon_runner.worker.recorder import Recorder
from beacon_runner.worker.service import Worker, WorkerParts

MAX_BACKOFF_S = 2.0


class Transport:
    """The Redis client of a process and what uses it: started first, closed last."""

    name = "redis"

    def __init__(
        self, live: LiveConfig, address: RedisAddress, registry: CollectorRegistry, clock: Clock
    ) -> None:
        self.live = live
        self.address = address
        self.clock = clock
        self.metrics = LoopMetrics(registry)
        self.redis: Redis | RedisCluster = address.open()
        config = live.current
        self.layout = Layout.of(config, cluster=address.cluster)
        self.queue = RedisQueue(self.redis, self.layout, lease_s=config.runner.lease_s)
        self.queue_admin = RedisQueueAdmin(self.redis, self.layout)
        self.outbox_notifier = OutboxNotifier(self.redis)

    @property
    def config(self) -> BeaconConfig:
        return self.live.current

    async def start(self) -> None:
        await self.outbox_notifier.start()

    async def wait(self) -> None:
        await self.outbox_notifier.wait()

    async def stop(self) -> None:
        await self.outbox_notifier.stop()
        await self.redis.aclose()


@dataclass(frozen=True, slots=True)
class RelayStore:
    """The Postgres adapters that the relay's loops use."""

    outbox: Outbox
    live: ReconcileStore
    promotions: PromotionStore
    retention: RetentionStore
    pauses: PauseStore
    schedule: ScheduleStore
    usage: UsageRollUp
    operations: OperationSteps

    @classmethod
    def on(cls, database: Database) -> "RelayStore":
        live = PostgresReconcile(database)
        return cls(
            outbox=PostgresOutbox(database),
            live=live,
            promotions=live,
            retention=PostgresRetention(database),
            pauses=PostgresPauses(database),
            schedule=PostgresSchedule(database),
            usage=PostgresUsage(database),
            operations=PostgresOperations(database),
        )


def build_worker(transport: Transport, store: ClaimStore, executor: Executor) -> list[Service]:
    """The worker and its wake-up subscription, in the order of their start."""
    config, clock, metrics = transport.config.runner, transport.clock, transport.metrics
    name = worker_name()
    reports = PendingReports()
    in_flight = InFlight(
        config.in_flight_jobs,
        config.in_flight_bytes,
        max_job_bytes=transport.config.limits.body_bytes,
        lane_jobs=config.in_flight_jobs_per_lane,
    )
    metrics.jobs_in_flight.set_function(lambda: in_flight.jobs)
    metrics.in_flight_bytes.set_function(lambda: in_flight.bytes)
    runner = JobRunner(
        executor,
        reports,
        in_flight,
        clock,
        metrics,
        policy=Derived(transport.live, retry_policy),
        parallelism=transport.config.limits.job_parallelism,
    )
    heartbeat = Heartbeat(
        RedisLeaseRenewal(
            replace(transport.address, timeout_s=config.heartbeat_s),
            transport.layout,
            name,
            lease_s=config.lease_s,
        ),
        clock,
        metrics,
        on_lost=runner.release_lost,
        lease_s=config.lease_s,
        every_s=config.heartbeat_s,
    )
    dependencies = ClaimDependencies(
        transport.queue,
        store,
        runner,
        in_flight,
        heartbeat,
        name,
        clock,
        metrics,
        max_deliveries=config.max_deliveries,
        batch=config.claim_batch,
        lease_s=config.lease_s,
    )
    pools = [Pool(name, pool, dependencies) for name, pool in transport.config.pools.items()]
    notify_outbox = transport.outbox_notifier.notify
    recorder = Recorder(
        reports, store, transport.queue, runner, heartbeat, name, notify_outbox, clock, metrics
    )
    parts = WorkerParts(pools, runner, recorder, heartbeat)
    worker = Worker(parts, clock, stop_grace_s=config.stop_grace_s)
    return [worker, Subscriber("worker-wake", transport.address, clock, {WAKE_CHANNEL: worker.notify})]


def build_relay(
    transport: Transport,
    store: RelayStore,
    cancels: CancelNotifier | None = None,
    files: FileCleanup | None = None,
    demand: DemandCollector | None = None,
) -> list[Service]:
    """All maintenance loops and the wake-up subscription of the publisher."""
    config, queue, metrics, clock = transport.config, transport.queue, transport.metrics, transport.clock
    live, wakeup = transport.live, WakeEvent()
    transport.outbox_notifier.add_local(wakeup)

    def loop(
        name: str,
        run_once: Callable[[], Awaitable[RunResult]],
        every_s: float,
        woken: WakeEvent | None = None,
    ) -> Loop:
        return Loop(
            name, run_once, interval_s=every_s, clock=clock, wakeup=woken, max_backoff_s=MAX_BACKOFF_S
        )

    mirror = RedisMirror(store.live, store.pauses, transport.queue_admin)
    reconciler = Reconciler(store.live, queue, mirror, metrics, clock, lease_s=config.runner.lease_s)
    retention = Retention(store.retention, lambda: live.current.retention)
    promoter = Promoter(store.promotions, Derived(live, promotions), metrics)
    admission = LimitAdmission(store.schedule, live, transport.outbox_notifier.notify)
    operations = OperationRunner(
        store.operations,
        transport.queue_admin,
        transport.outbox_notifier.notify,
        lambda: live.current.retention.jobs_s,
    )
    handlers = {OUTBOX_CHANNEL: lambda _: wakeup.set()}
    return [
        loop("publisher", OutboxPublisher(store.outbox, queue, metrics).run_once, 1.0, wakeup),
        Subscriber("relay-wake", transport.address, clock, handlers),
        loop("retries", RetryHandler(queue, metrics).run_once, 0.5),
        loop("scheduled-starts", ScheduledStarts(store.schedule).run_once, 1.0),
        loop("expiry", Expiry(store.schedule, transport.queue_admin).run_once, 1.0),
        loop("limit-admission", admission.run_once, 1.0),
        loop("operations", operations.run_once, 1.0),
        loop("reaper", LeaseReaper(queue, metrics).run_once, min(1.0, config.runner.lease_s / 4)),
        loop("reconciler", reconciler.run_once, 1.0),
        loop("promoter", promoter.run_once, config.promotion.check_every_s),
        loop("usage-roll-up", UsageRollUpLoop(store.usage, metrics).run_once, 10.0),
        loop("retention", retention.run_once, config.retention.check_every_s),
        *([] if cancels is None else [loop("cancels", cancels.run_once, 1.0)]),
        *([] if files is None else [loop("file-cleanup", files.run_once, config.retention.check_every_s)]),
        loop("metrics", MetricsCollector(store.outbox, transport.queue_admin, metrics).run_once, 5.0),
        loop("queue-ages", QueueAgeCollector(store.live, metrics).run_once, 15.0),
        *([] if demand is None else [loop("demand", demand.run_once, 15.0)]),
    ]


def retry_policy(config: BeaconConfig) -> RetryPolicy:
    runner = config.runner
    backoff = RouterBackoff(unreachable_s=runner.router_unreachable_delay_s, max_s=runner.router_delay_max_s)
    return RetryPolicy(runner.job_retries, runner.job_retry_delays_s, backoff)


def worker_name() -> str:
    """A unique name of this process, readable in Redis and in the jobs table."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:40]
    return f"{host}-{os.getpid()}-{token_hex(3)}"
