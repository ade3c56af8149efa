"""The jobs that this process works on: starts their executions and passes results to the recorder."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random

import structlog

from beacon_contracts.ids import JobId, encode_job_id
from beacon_contracts.inference import InferenceView
from beacon_lifecycle import Clock, TaskSet
from beacon_runner.domain.execution.plan import PendingExecution
from beacon_runner.domain.execution.retry_policy import RetryPolicy
from beacon_runner.domain.execution.stage_result import Returned
from beacon_runner.domain.queue.messages import Message
from beacon_runner.metrics import LoopMetrics
from beacon_runner.worker.executor import Executor
from beacon_runner.worker.in_flight import InFlight
from beacon_runner.worker.pending_reports import PendingReports
from beacon_runner.worker.run import JobRun, worker_error

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class ActiveRun:
    """A run, the tasks of its executions, and the pool slot that it occupies until `free_slot` is called.

    `size`: the bytes of its input. `unsent`: executions that no router has accepted yet.
    """

    run: JobRun
    size: int
    free_slot: Callable[[], None] | None
    keep_slot: bool
    tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    unsent: set[int] = field(default_factory=set)

    def release_slot(self, *, ended: bool = False) -> None:
        """If routers have accepted what was started, or the run has ended."""
        if ended or not (self.unsent or self.keep_slot):
            free, self.free_slot = self.free_slot, None
            if free is not None:
                free()


class JobRunner:
    def __init__(
        self,
        executor: Executor,
        reports: PendingReports,
        in_flight: InFlight,
        clock: Clock,
        metrics: LoopMetrics,
        *,
        policy: Callable[[], RetryPolicy],
        parallelism: int,
        random: Random | None = None,
    ) -> None:
        self._executor = executor
        self._reports = reports
        self._in_flight = in_flight
        self._clock = clock
        self._metrics = metrics
        self._policy = policy
        self._parallelism = parallelism
        self._random = random or Random()  # noqa: S311 - spreads retries, keeps no secret
        self._tasks = TaskSet("executions")
        self._active: dict[JobId, ActiveRun] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._active)

    @property
    def failed(self) -> asyncio.Event:
        """Set when an execution was lost by a programming error: its job would wait forever."""
        return self._tasks.failed

    def begin(self, run: JobRun, free_slot: Callable[[], None], *, keep_slot: bool = False) -> JobRun | None:
        """Work on it. An older delivery of the same job has lost its fence: it is released and returned.

        The slot is free when a router has accepted what was started; with `keep_slot`, when the job is
        recorded.
        """
        older = self.release(run.job.id) if run.job.id in self._active else None
        size = len(str(run.job.spec)) + len(str(run.job.context))
        self._active[run.job.id] = active = ActiveRun(run, size, free_slot, keep_slot)
        self._in_flight.add(run.message.lane, size)
        self._empty.clear()
        self._advance(active)
        return older

    def release(self, job: JobId) -> JobRun | None:
        """Stop working on it and record nothing more; what runs at a router is left to its next owner."""
        active = self._active.pop(job, None)
        if active is None:
            return None
        for task in active.tasks.values():
            task.cancel()
        active.run.released = True
        self._reports.discard(active.run)
        active.release_slot(ended=True)
        self._in_flight.remove(active.run.message.lane, active.size)
        if not self._active:
            self._empty.set()
        return active.run

    def release_lost(self, message_ids: Iterable[str]) -> list[Message]:
        """Another worker has leased these messages: release their jobs; returns the messages of those."""
        wanted = set(message_ids)
        lost = [active.run for active in self._active.values() if active.run.message.id in wanted]
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
        for active in self._active.values():
            if active.run.verdict is None:
                for task in active.tasks.values():
                    task.cancel()
                active.run.verdict = Returned()
                self._reports.add(active.run)

    async def close(self) -> None:
        await self._tasks.close()

    def _advance(self, active: ActiveRun) -> None:
        """Start what may start; when nothing is left to run, decide the verdict."""
        run, name = active.run, encode_job_id(active.run.job.id)
        while (pending := run.start_next(self._parallelism)) is not None:
            ordinal = pending.execution.ordinal
            active.unsent.add(ordinal)
            active.tasks[ordinal] = self._tasks.spawn(name, self._execute(active, pending))
        active.release_slot()
        if run.verdict is None and run.is_settled:
            run.verdict = run.decide(self._policy(), self._random.random())
        if run.verdict is not None or run.has_results:
            self._reports.add(run)

    async def _execute(self, active: ActiveRun, pending: PendingExecution) -> None:
        """Run it through a router, then continue with the others of its job."""
        run, ordinal = active.run, pending.execution.ordinal
        try:
            outcome = await self._executor.run(run.job, pending, partial(self._observe, active, pending))
        except Exception as error:
            log.exception("execution_failed_unexpectedly", job=encode_job_id(run.job.id), ordinal=ordinal)
            outcome = worker_error(error)
        active.unsent.discard(ordinal)
        active.tasks.pop(ordinal, None)
        if not run.released:
            run.finish(pending, outcome, self._clock.unix())
            self._advance(active)

    def _observe(self, active: ActiveRun, pending: PendingExecution, view: InferenceView | None) -> None:
        """A router has the execution; with a view, its run has started or reports, or it waits again."""
        active.unsent.discard(pending.execution.ordinal)
        active.release_slot()
        if not active.run.released:
            active.run.observe(pending, view, self._clock.unix())
            if active.run.names_new_run:
                self._reports.add(active.run)
            else:
                self._reports.add_later(active.run)
