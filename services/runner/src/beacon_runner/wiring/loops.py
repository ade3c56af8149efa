"""Puts the loops of a process together: `worker` and `relay`, and the bell that the API rings."""

import os
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from secrets import token_hex

from prometheus_client import CollectorRegistry
from redis.asyncio import Redis, RedisCluster

from beacon_config import BeaconConfig
from beacon_lifecycle import Clock, Loop, RunResult, Service, WakeEvent
from beacon_redis import RedisAddress, Subscriber
from beacon_runner.domain.classes import promotions
from beacon_runner.domain.verdict import RetryPolicy
from beacon_runner.maintenance.cancel_notifier import CancelNotifier
from beacon_runner.maintenance.metrics_collector import AgeReader, GaugeReader
from beacon_runner.maintenance.outbox_notifier import OutboxNotifier
from beacon_runner.maintenance.promoter import Promoter
from beacon_runner.maintenance.publisher import OutboxPublisher
from beacon_runner.maintenance.reaper import LeaseReaper
from beacon_runner.maintenance.reconciler import Reconciler
from beacon_runner.maintenance.redis_mirror import Mirror
from beacon_runner.maintenance.retention import Retention
from beacon_runner.maintenance.retries import RetryHandler
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.claims import ClaimStore
from beacon_runner.ports.outbox import Outbox
from beacon_runner.ports.pauses import PauseStore
from beacon_runner.ports.promotions import PromotionStore
from beacon_runner.ports.reconcile import ReconcileStore
from beacon_runner.ports.retention import RetentionStore
from beacon_runner.redis_queue import Layout, RedisQueue, RedisQueueAdmin
from beacon_runner.redis_queue.keys import OUTBOX_CHANNEL, WAKE_CHANNEL, hand_channel
from beacon_runner.worker.executor import Executor
from beacon_runner.worker.heartbeat import Heartbeat
from beacon_runner.worker.job_runner import JobRunner
from beacon_runner.worker.pool import Intake, Pool
from beacon_runner.worker.post_commit import Settlement
from beacon_runner.worker.recorder import Recorder
from beacon_runner.worker.service import Worker, WorkerParts

LONGEST_BACKOFF_S = 2.0


class Transport:
    """A process's way to Redis: one client for all of its parts, opened once and closed last."""

    name = "redis"

    def __init__(
        self, config: BeaconConfig, address: RedisAddress, registry: CollectorRegistry, clock: Clock
    ) -> None:
        self.config = config
        self.address = address
        self.clock = clock
        self.metrics = LoopMetrics(registry)
        self.redis: Redis | RedisCluster = address.open()
        self.layout = Layout.of(config, cluster=address.cluster)
        self.queue = RedisQueue(self.redis, self.layout, lease_s=config.runner.lease_s)
        self.desk = RedisQueueAdmin(self.redis, self.layout)
        self.bell = OutboxNotifier(self.redis)

    async def start(self) -> None:
        await self.bell.start()

    async def wait(self) -> None:
        await self.bell.wait()

    async def stop(self) -> None:
        await self.bell.stop()
        await self.redis.aclose()


@dataclass(frozen=True, slots=True)
class RelayStore:
    """What the relay's loops need of Postgres."""

    outbox: Outbox
    live: ReconcileStore
    promotions: PromotionStore
    attic: RetentionStore
    pauses: PauseStore


def build_worker(transport: Transport, store: ClaimStore, executor: Executor) -> list[Service]:
    """The job runner and what wakes it, in the order in which they start."""
    config, clock, metrics = transport.config.runner, transport.clock, transport.metrics
    name = worker_name()
    recorder = Recorder(store, clock, metrics)
    bench = JobRunner(
        executor,
        recorder,
        clock,
        policy=RetryPolicy(config.job_retries, config.job_retry_delays_s),
        parallelism=transport.config.limits.job_parallelism,
    )
    heartbeat = _heartbeat(transport, name)
    ring = transport.bell.ring
    intake = Intake(
        transport.queue,
        store,
        bench,
        heartbeat,
        name,
        clock,
        metrics,
        ring,
        batch=config.claim_batch,
        lease_s=config.lease_s,
    )
    pools = [Pool(name, pool, intake) for name, pool in transport.config.pools.items()]
    settlement = Settlement(transport.queue, bench, heartbeat, name, ring, metrics)
    parts = WorkerParts(pools, bench, recorder, settlement, heartbeat, executor, metrics)
    worker = Worker(parts, clock, stop_grace_s=config.stop_grace_s)
    heard = {WAKE_CHANNEL: worker.tell, hand_channel(name): worker.hand}
    return [worker, Subscriber("worker-wake", transport.address, clock, heard)]


def build_relay(
    transport: Transport, store: RelayStore, courier: CancelNotifier | None = None
) -> list[Service]:
    """Publisher, retry handler, reaper, promoter, reconciler, janitor, courier of cancels and gauges."""
    config, queue, metrics, clock = transport.config, transport.queue, transport.metrics, transport.clock
    wakeup = WakeEvent()
    transport.bell.also_wake(wakeup)

    def loop(
        name: str,
        run_once: Callable[[], Awaitable[RunResult]],
        every_s: float,
        woken: WakeEvent | None = None,
    ) -> Loop:
        return Loop(
            name, run_once, interval_s=every_s, clock=clock, wakeup=woken, max_backoff_s=LONGEST_BACKOFF_S
        )

    mirror = Mirror(store.live, store.pauses, transport.desk)
    reconciler = Reconciler(store.live, queue, mirror, metrics, clock, lease_s=config.runner.lease_s)
    promoter = Promoter(store.promotions, promotions(config), metrics)
    heard = {OUTBOX_CHANNEL: lambda _: wakeup.set()}
    return [
        loop("publisher", OutboxPublisher(store.outbox, queue, metrics).run_once, 1.0, wakeup),
        Subscriber("relay-wake", transport.address, clock, heard),
        loop("retries", RetryHandler(queue, metrics).run_once, 0.5),
        loop("reaper", LeaseReaper(queue, metrics).run_once, min(1.0, config.runner.lease_s / 4)),
        loop("reconciler", reconciler.run_once, 1.0),
        loop("promoter", promoter.run_once, config.promotion.check_every_s),
        loop("janitor", Retention(store.attic, config.retention).run_once, 300.0),
        *([] if courier is None else [loop("cancels", courier.run_once, 1.0)]),
        loop("gauges", GaugeReader(store.outbox, transport.desk, metrics).run_once, 5.0),
        loop("ages", AgeReader(store.live, metrics).run_once, 15.0),
    ]


def worker_name() -> str:
    """Names a process for as long as it lives, readable in Redis and in the jobs table."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:40]
    return f"{host}-{os.getpid()}-{token_hex(3)}"


def _heartbeat(transport: Transport, worker: str) -> Heartbeat:
    runner = transport.config.runner
    address = RedisAddress(
        transport.address.url, cluster=transport.address.cluster, timeout_s=runner.heartbeat_s
    )
    return Heartbeat(
        address,
        transport.layout,
        worker,
        transport.clock,
        transport.metrics,
        lease_s=runner.lease_s,
        every_s=runner.heartbeat_s,
    )
