"""The jobs that this process works on: starts their executions and passes results to the recorder."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random

import structlog

from beacon_contracts.ids import JobId, encode_job_id
from beacon_lifecycle import Clock
from beacon_runner.domain.messages import Message
from beacon_runner.domain.plan import PendingExecution
from beacon_runner.domain.retry_policy import RetryPolicy
from beacon_runner.domain.stage_result import Returned
from beacon_runner.metrics import LoopMetrics
from beacon_runner.worker.executor import Executor, Handle
from beacon_runner.worker.pending_reports import PendingReports
from beacon_runner.worker.run import JobRun, Outcome, worker_error

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Slot:
    """A run, the pool slot that it occupies, and its executions in flight."""

    run: JobRun
    free: Callable[[], None]
    handles: dict[int, Handle] = field(default_factory=dict)
    starting: bool = False


class JobRunner:
    def __init__(
        self,
        executor: Executor,
        reports: PendingReports,
        clock: Clock,
        metrics: LoopMetrics,
        *,
        policy: RetryPolicy,
        parallelism: int,
        random: Random | None = None,
    ) -> None:
        self._executor = executor
        self._reports = reports
        self._clock = clock
        self._metrics = metrics
        self._policy = policy
        self._parallelism = parallelism
        self._random = random or Random()  # noqa: S311 - spreads retries, keeps no secret
        self._slots: dict[JobId, Slot] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._slots)

    def begin(self, run: JobRun, free_slot: Callable[[], None]) -> JobRun | None:
        """Work on it. An older delivery of the same job has lost its fence: it is released and returned."""
        older = self.release(run.job.id)
        self._slots[run.job.id] = slot = Slot(run, free_slot)
        self._empty.clear()
        self._advance(slot)
        return older

    def release(self, job: JobId) -> JobRun | None:
        """Stop working on it and record nothing more; executions at the router are left to the next owner."""
        slot = self._slots.pop(job, None)
        if slot is None:
            return None
        self._cancel_handles(slot)
        slot.run.released = True
        self._reports.discard(slot.run)
        slot.free()
        if not self._slots:
            self._empty.set()
        return slot.run

    def release_lost(self, message_ids: Iterable[str]) -> list[Message]:
        """Another worker has leased these messages: release their jobs; returns the messages of those."""
        wanted = set(message_ids)
        lost = [slot.run for slot in self._slots.values() if slot.run.message.id in wanted]
        for run in lost:
            self.release(run.job.id)
        if lost:
            self._metrics.leases_lost.inc(len(lost))
            log.warning("leases_lost", count=len(lost), first=encode_job_id(lost[0].job.id))
        return [run.message for run in lost]

    async def wait_empty(self, within_s: float) -> bool:
        """Wait until all jobs are recorded; false after `within_s`."""
        try:
            async with asyncio.timeout(within_s):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def return_all(self) -> None:
        """Stop executions that have not ended: their jobs return to the queue with the results they have."""
        for slot in self._slots.values():
            if slot.run.verdict is None:
                self._cancel_handles(slot)
                slot.run.verdict = Returned()
                self._reports.add(slot.run)

    def _advance(self, slot: Slot) -> None:
        """Start what may start; when nothing is left to run, decide the verdict."""
        run = slot.run
        slot.starting = True
        while (pending := run.start_next(self._parallelism)) is not None:
            self._start(slot, pending)
        slot.starting = False
        if run.verdict is None and run.is_settled:
            run.verdict = run.decide(self._policy, self._random.random())
        if run.verdict is not None or run.has_results:
            self._reports.add(run)
        elif run.unrecorded:
            self._reports.add_started(run)

    def _start(self, slot: Slot, pending: PendingExecution) -> None:
        run, at = slot.run, self._clock.unix()
        try:
            handle = self._executor.start(run.job, pending, partial(self._finish, slot, pending, at))
        except Exception as error:
            log.exception("execution_start_failed", job=encode_job_id(run.job.id))
            run.finish(pending, worker_error(error), at, at)
            return
        if handle is not None:
            slot.handles[pending.execution.ordinal] = handle
            run.mark_running(pending, at)

    def _finish(self, slot: Slot, pending: PendingExecution, started_at: float, outcome: Outcome) -> None:
        slot.handles.pop(pending.execution.ordinal, None)
        if slot.run.released:
            return
        slot.run.finish(pending, outcome, started_at, self._clock.unix())
        if not slot.starting:  # otherwise the loop in `_advance` continues
            self._advance(slot)

    def _cancel_handles(self, slot: Slot) -> None:
        for handle in slot.handles.values():
            handle.cancel()
        slot.handles.clear()
