"""Publishes live jobs again that Redis does not hold; all of them after Redis was emptied."""

from dataclasses import dataclass, field
from enum import Enum, auto

import structlog

from beacon_contracts.ids import new_uuid
from beacon_lifecycle import Clock, RunResult
from beacon_runner.maintenance.redis_mirror import RedisMirror
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.queue import MessageQueue
from beacon_runner.ports.reconcile import LiveMessage, ReconcileStore

log = structlog.get_logger(__name__)


class Sweep(Enum):
    """Why the live jobs are compared with Redis."""

    REBUILD = auto()
    ROUTINE = auto()


@dataclass(slots=True)
class Reconciler:
    """Each run reads the epoch and compares one page of live jobs with Redis.

    The epoch is set when a rebuild has compared all live jobs: if the process dies before, the epoch stays
    missing and the next process starts again. Two rebuilds at once publish twice; the queue ignores copies.
    A rebuild skips jobs that workers hold: their heartbeats restore the leases, and the sweep after `lease_s`
    finds jobs of dead workers. Pauses are restored before the jobs, and nothing is claimed until they are.
    """

    live: ReconcileStore
    queue: MessageQueue
    mirror: RedisMirror
    metrics: LoopMetrics
    clock: Clock
    lease_s: float = 10.0
    sweep_every_s: float = 60.0
    page: int = 5_000
    _sweep: Sweep | None = field(default=None, init=False)
    _after: LiveMessage | None = field(default=None, init=False)
    _republished: int = field(default=0, init=False)
    _next_sweep_at: float = field(default=float("-inf"), init=False)
    _server: str | None = field(default=None, init=False)

    async def run_once(self) -> RunResult:
        await self._choose_sweep()
        if self._sweep is None:
            return RunResult(0)
        if self._after is None:
            await self.mirror.restore_pauses()
        count = await self._compare_page()
        return RunResult(count, more=self._sweep is not None)

    async def _choose_sweep(self) -> None:
        server, epoch = await self.queue.identity(), await self.queue.epoch()
        if epoch is None and self._sweep is not Sweep.REBUILD:
            log.warning("redis_emptied", action="rebuild the queues")
            self._begin(Sweep.REBUILD)
        elif self._sweep is None and (server != self._server or self._due()):
            # A replaced or restarted server may have lost its last writes.
            self._begin(Sweep.ROUTINE)
        self._server = server

    def _begin(self, sweep: Sweep) -> None:
        self._sweep, self._after, self._republished = sweep, None, 0

    def _due(self) -> bool:
        return self.clock.now() >= self._next_sweep_at

    async def _compare_page(self) -> int:
        rebuilding = self._sweep is Sweep.REBUILD
        page = await self.live.live_page(self._after, self.page, also_unpublished=rebuilding)
        compared = [live for live in page if not (rebuilding and live.claimed)]
        missing = await self.queue.find_inconsistent(compared)
        count = await self.live.republish(missing) if missing else 0
        self._republished += count
        self.metrics.jobs_republished.inc(count)
        if len(page) < self.page:
            await self._end()
        else:
            self._after = page[-1]
        return count

    async def _end(self) -> None:
        pause_s = self.sweep_every_s
        if found := await self.queue.repair():
            log.warning("queue_repaired", count=found)
            self.metrics.queue_repaired.inc(found)
        await self.mirror.compare_dead_letters()
        if self._sweep is Sweep.REBUILD:
            pause_s = min(pause_s, self.lease_s)
            await self.queue.begin_epoch(new_uuid().hex)
        if self._republished:
            log.warning("jobs_republished", count=self._republished, sweep=self._sweep)
        self._sweep, self._next_sweep_at = None, self.clock.now() + pause_s
