"""Records the reports of runs: those that arrive during a write share the next one, in one transaction.

Several writers run concurrently, so that the worker continues while Postgres writes; see ADR 12.

The start of an execution is recorded after `START_DELAY_S`, and not separately if its result arrives before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import structlog

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import ExecutionState
from beacon_lifecycle import Clock
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.json_limits import NOT_RECORDABLE, unstorable
from beacon_runner.domain.stage_result import Dead, StageReport
from beacon_runner.domain.verdict import dead_verdict
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.claims import ClaimStore
from beacon_runner.worker.run import JobRun

log = structlog.get_logger(__name__)

START_DELAY_S = 0.1
MIN_PAUSE_S, MAX_PAUSE_S = 0.1, 2.0

OnRecorded = Callable[[Sequence[JobRun], Sequence[StageReport], frozenset[JobId]], Awaitable[None]]


class Recorder:
    def __init__(
        self,
        store: ClaimStore,
        clock: Clock,
        metrics: LoopMetrics,
        *,
        max_jobs: int = 1_000,
        max_executions: int = 2_000,
    ) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._max_jobs = max_jobs
        self._max_executions = max_executions
        self._waiting: dict[JobRun, None] = {}
        self._writing: set[JobRun] = set()
        self._started: dict[JobRun, None] = {}
        self._added = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, run: JobRun) -> None:
        """The run has results to record; its report is taken when the write starts."""
        self._started.pop(run, None)
        self._waiting[run] = None
        self._idle.clear()
        self._added.set()

    def add_started(self, run: JobRun) -> None:
        """The run has only starts to record."""
        if not self._started:
            asyncio.get_running_loop().call_later(START_DELAY_S, self._add_all_started)
        self._started[run] = None

    def discard(self, run: JobRun) -> None:
        self._started.pop(run, None)
        self._waiting.pop(run, None)

    async def wait_idle(self) -> None:
        """Wait until everything that was added is written."""
        await self._idle.wait()

    async def run(self, on_recorded: OnRecorded) -> None:
        """One writer; ends when cancelled. `on_recorded` gets a write's runs, reports, applied jobs."""
        while True:
            await self._added.wait()
            self._added.clear()
            while runs := self._take():
                reports = [run.take_report() for run in runs]
                applied = await self._write(reports)
                self._metrics.result_batch_size.observe(len(reports))
                await on_recorded(runs, reports, applied)
                self._writing.difference_update(runs)
            if not self._writing:
                self._idle.set()

    def _add_all_started(self) -> None:
        for run in list(self._started):
            self.add(run)

    def _take(self) -> list[JobRun]:
        taken: list[JobRun] = []
        executions = 0
        for run in self._waiting:
            if run in self._writing:  # one write at a time for each job: its reports keep their order
                continue
            taken.append(run)
            executions += run.unrecorded
            if len(taken) >= self._max_jobs or executions >= self._max_executions:
                break
        for run in taken:
            del self._waiting[run]
        self._writing.update(taken)
        return taken

    async def _write(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        """Retries until Postgres answers. If it refuses the reports, the bad one is found by halving."""
        pause_s = MIN_PAUSE_S
        while True:
            try:
                return await self._store.record(reports)
            except StoreUnavailableError as error:
                log.warning("record_retried", jobs=len(reports), error=str(error))
            except Exception:
                log.exception("record_failed", jobs=len(reports))
                return await self._write_separately(reports)
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, MAX_PAUSE_S)

    async def _write_separately(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        if len(reports) > 1:
            half = len(reports) // 2
            return await self._write(reports[:half]) | await self._write(reports[half:])
        (report,) = reports
        if isinstance(report.verdict, Dead) and report.verdict.reason == NOT_RECORDABLE:
            return frozenset()  # it is delivered again, and deliveries are counted
        return await self._write([_unrecordable(report)])


def _unrecordable(report: StageReport) -> StageReport:
    """Ends the job with a failure that names the reason."""
    failure = unstorable("the report of this job cannot be stored")
    recorded = [one.state for one in report.claimed.recorded_executions]
    some_completed = ExecutionState.COMPLETED in recorded + [one.state for one in report.earlier]
    failed = tuple(
        replace(
            one,
            state=ExecutionState.FAILED,
            output=None,
            stored=None,
            failure=failure.model_copy(update={"item": one.execution.item}),
        )
        for one in report.executions
    )
    verdict = dead_verdict(report.claimed, NOT_RECORDABLE, failure, some_completed=some_completed)
    return replace(report, executions=failed, verdict=verdict)
