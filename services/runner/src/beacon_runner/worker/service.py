"""The worker of a process: pools, job runner, recorder and heartbeat, started and stopped in order."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from beacon_lifecycle import Clock, Loop, RunResult, TaskSet
from beacon_runner.worker.heartbeat import Heartbeat
from beacon_runner.worker.job_runner import JobRunner
from beacon_runner.worker.pool import Pool
from beacon_runner.worker.recorder import Recorder

log = structlog.get_logger(__name__)

POLL_INTERVAL_S = 1.0
MAX_BACKOFF_S = 2.0
LAST_WRITE_TIMEOUT_S = 5.0
CONCURRENT_FLUSHES = 2


@dataclass(frozen=True, slots=True)
class WorkerParts:
    pools: Sequence[Pool]
    runner: JobRunner
    recorder: Recorder
    heartbeat: Heartbeat


class Worker:
    name = "worker"

    def __init__(self, parts: WorkerParts, clock: Clock, *, stop_grace_s: float) -> None:
        self._parts = parts
        self._stop_grace_s = stop_grace_s
        self._tasks = TaskSet(self.name)
        self._stopped = False
        self._loops = [
            Loop(
                f"pool-{pool.name}",
                partial(self._claim, pool),
                interval_s=POLL_INTERVAL_S,
                clock=clock,
                wakeup=pool.wakeup,
                max_backoff_s=MAX_BACKOFF_S,
            )
            for pool in parts.pools
        ]

    def notify(self, job_class: str) -> None:
        """Messages were queued in this class, or with an empty name in any. One ready pool is enough."""
        serving = [pool for pool in self._parts.pools if not job_class or job_class in pool.classes]
        ready = [pool for pool in serving if job_class and pool.is_ready]
        for pool in ready[:1] or serving:
            pool.notify()

    async def start(self) -> None:
        self._parts.heartbeat.start()
        for number in range(CONCURRENT_FLUSHES):
            self._tasks.spawn(f"recorder-{number}", self._parts.recorder.run())
        for ticker in self._loops:
            await ticker.start()

    async def wait(self) -> None:
        """Ends only after a programming error, which is logged where it happened."""
        failures = [self._parts.runner.failed.wait(), self._tasks.failed.wait()]
        watches = [asyncio.ensure_future(failure) for failure in failures]
        try:
            await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for watch in watches:
                watch.cancel()
        raise RuntimeError("a task of the worker ended") from self._tasks.failure

    async def stop(self) -> None:
        """Claim nothing new, let running jobs end, return the rest without charging an attempt."""
        if self._stopped:
            return
        self._stopped = True
        parts = self._parts
        await asyncio.gather(*(ticker.stop() for ticker in self._loops))
        if not await parts.runner.wait_empty(self._stop_grace_s):
            log.info("jobs_returned", count=len(parts.runner))
            parts.runner.return_all()
        try:
            async with asyncio.timeout(LAST_WRITE_TIMEOUT_S):
                await parts.recorder.pending.wait_idle()
        except TimeoutError:
            log.warning("results_not_recorded", jobs=len(parts.runner))
        await asyncio.to_thread(parts.heartbeat.stop)
        await parts.runner.close()
        await self._tasks.close()

    async def _claim(self, pool: Pool) -> RunResult:
        """Claim for one pool; if more waits than it took, the other pools may take it."""
        result = await pool.run_once()
        if result.count and pool.may_have_work:
            for other in self._parts.pools:
                if other is not pool:
                    other.notify()
        return result
