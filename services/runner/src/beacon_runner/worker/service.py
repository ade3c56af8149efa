"""The worker of a process: pools that claim, one bench, one recorder, one heartbeat; stopped in order."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from beacon_lifecycle import Clock, Loop, TaskSet
from beacon_runner.metrics import LoopMetrics
from beacon_runner.redis_queue.redis_queue import handed
from beacon_runner.worker.executor import Executor
from beacon_runner.worker.heartbeat import Heartbeat
from beacon_runner.worker.job_runner import JobRunner
from beacon_runner.worker.pool import Pool
from beacon_runner.worker.post_commit import Settlement
from beacon_runner.worker.recorder import Recorder

log = structlog.get_logger(__name__)

POLL_S = 1.0
LONGEST_BACKOFF_S = 2.0
LAST_WRITE_S = 5.0


@dataclass(frozen=True, slots=True)
class WorkerParts:
    pools: Sequence[Pool]
    bench: JobRunner
    recorder: Recorder
    settlement: Settlement
    heartbeat: Heartbeat
    executor: Executor
    metrics: LoopMetrics


class Worker:
    name = "worker"

    def __init__(self, parts: WorkerParts, clock: Clock, *, stop_grace_s: float) -> None:
        self._parts = parts
        self._stop_grace_s = stop_grace_s
        self._tasks = TaskSet(self.name)
        self._stopped = False
        for pool in parts.pools:
            pool.helpers = [other for other in parts.pools if other is not pool]
        self._loops = [
            Loop(
                f"pool-{pool.name}",
                pool.run_once,
                interval_s=POLL_S,
                clock=clock,
                wakeup=pool.wakeup,
                max_backoff_s=LONGEST_BACKOFF_S,
            )
            for pool in parts.pools
        ]

    def tell(self, job_class: str) -> None:
        """Something was queued in this class; without a name, in any. One pool is enough, if it is ready."""
        serving = [pool for pool in self._parts.pools if not job_class or pool.serves(job_class)]
        ready = [pool for pool in serving if job_class and pool.is_ready]
        for pool in ready[:1] or serving:
            pool.tell()

    def hand(self, text: str) -> None:
        """A message was leased to a pool here that waits; without a text nothing was."""
        if text:
            name, message = handed(text)
            next(pool for pool in self._parts.pools if pool.name == name).hand(message)

    async def start(self) -> None:
        self._parts.heartbeat.start(self._hear_from_thread(asyncio.get_running_loop()))
        recorder, settle = self._parts.recorder, self._parts.settlement.settle
        self._tasks.spawn("recorder", recorder.run(settle))
        self._tasks.spawn("second-recorder", recorder.help(settle))
        for ticker in self._loops:
            await ticker.start()

    async def wait(self) -> None:
        """Ends only by a mistake in the program, which has been logged where it happened."""
        deaths = [self._parts.executor.failed.wait(), self._tasks.failed.wait()]
        watches = [asyncio.ensure_future(death) for death in deaths]
        try:
            await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for watch in watches:
                watch.cancel()
        raise RuntimeError("the worker lost a part of its work") from self._tasks.failure

    async def stop(self) -> None:
        """Take nothing new, let what runs end, give back the rest, which is charged no attempt."""
        if self._stopped:
            return
        self._stopped = True
        parts = self._parts
        await asyncio.gather(*(ticker.stop() for ticker in self._loops))
        for pool in parts.pools:
            await pool.return_handed()
        if not await parts.bench.emptied(self._stop_grace_s):
            log.info("jobs_given_back", count=len(parts.bench))
            parts.bench.return_all()
        await self._write_the_last()
        await asyncio.to_thread(parts.heartbeat.stop)
        await parts.executor.close()
        await self._tasks.close()

    async def _write_the_last(self) -> None:
        try:
            async with asyncio.timeout(LAST_WRITE_S):
                await self._parts.recorder.idle()
        except TimeoutError:
            log.warning("results_left_unwritten", jobs=len(self._parts.bench))

    def _hear_from_thread(self, loop: asyncio.AbstractEventLoop) -> Callable[[Sequence[str]], None]:
        def lost(message_ids: Sequence[str]) -> None:
            loop.call_soon_threadsafe(self._lost, message_ids)

        return lost

    def _lost(self, message_ids: Sequence[str]) -> None:
        parts = self._parts
        lost = parts.bench.find(message_ids)
        for run in lost:
            parts.bench.let_go(run.job.id)
        parts.heartbeat.drop(run.message for run in lost)
        parts.metrics.fences_lost.inc(len(lost))
        if lost:
            log.warning("leases_lost", count=len(lost), first=str(lost[0].job.id))
