"""Finds live jobs that Redis does not know and publishes them again; all of them when it came back empty."""

from dataclasses import dataclass, field
from enum import Enum, auto

import structlog

from beacon_contracts.ids import new_uuid
from beacon_lifecycle import Clock, RunResult
from beacon_runner.maintenance.redis_mirror import Mirror
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.queue import MessageQueue
from beacon_runner.ports.reconcile import LiveMessage, ReconcileStore

log = structlog.get_logger(__name__)


class Sweep(Enum):
    """Why the live jobs are being looked through."""

    REBUILD = auto()
    ROUTINE = auto()


@dataclass(slots=True)
class Reconciler:
    """A round asks for the epoch, which is cheap enough for each second, and looks at one page of a sweep.

    The epoch is set when a rebuild has gone through all live jobs: a process that dies before leaves it
    missing, and the next one starts over. Two rebuilds at once publish twice, and the queue knows the rest.
    A rebuild leaves out what workers have: their heartbeats restore it, and the sweep after `lease_s` finds
    what belonged to a worker that is dead. Pauses come before the jobs, and nothing is claimed before they
    are there, so that none slips through.
    """

    live: ReconcileStore
    queue: MessageQueue
    mirror: Mirror
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
        count = await self._look_at_page()
        return RunResult(count, more=self._sweep is not None)

    async def _choose_sweep(self) -> None:
        server, epoch = await self.queue.identity(), await self.queue.epoch()
        if epoch is None and self._sweep is not Sweep.REBUILD:
            log.warning("redis_is_empty", action="publish everything live again")
            self._begin(Sweep.REBUILD)
        elif self._sweep is None and (server != self._server or self._due()):
            # Another server, or the same one restarted: it may have lost the last second's writes.
            self._begin(Sweep.ROUTINE)
        self._server = server

    def _begin(self, sweep: Sweep) -> None:
        self._sweep, self._after, self._republished = sweep, None, 0

    def _due(self) -> bool:
        return self.clock.now() >= self._next_sweep_at

    async def _look_at_page(self) -> int:
        rebuilding = self._sweep is Sweep.REBUILD
        page = await self.live.live_page(self._after, self.page, also_unpublished=rebuilding)
        asked = [live for live in page if not (rebuilding and live.processing)]
        missing = await self.queue.find_inconsistent(asked)
        count = await self.live.republish(missing) if missing else 0
        self._republished += count
        self.metrics.republished.inc(count)
        if len(page) < self.page:
            await self._end()
        else:
            self._after = page[-1]
        return count

    async def _end(self) -> None:
        pause_s = self.sweep_every_s
        if found := await self.queue.repair():
            log.warning("messages_found_astray", count=found)
            self.metrics.astray.inc(found)
        await self.mirror.compare_letters()
        if self._sweep is Sweep.REBUILD:
            pause_s = min(pause_s, self.lease_s)
            await self.queue.begin_epoch(new_uuid().hex)
        if self._republished:
            log.warning("jobs_published_again", count=self._republished, sweep=self._sweep)
        self._sweep, self._next_sweep_at = None, self.clock.now() + pause_s
