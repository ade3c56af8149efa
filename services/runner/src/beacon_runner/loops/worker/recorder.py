"""Writes what runs have to say. Whatever was noted while a write was under way shares the next one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import structlog

from beacon_contracts.failures import Failure
from beacon_contracts.ids import JobId
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_lifecycle import Clock
from beacon_runner.domain.free_json import NOT_RECORDABLE, unstorable
from beacon_runner.domain.ports import ClaimStore, StoreUnavailableError
from beacon_runner.domain.work import Dead, ExecutionReport, StageReport
from beacon_runner.loops.metrics import LoopMetrics
from beacon_runner.loops.worker.run import JobRun

log = structlog.get_logger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0

Settle = Callable[[Sequence[JobRun], Sequence[StageReport], frozenset[JobId]], Awaitable[None]]


class Recorder:
    def __init__(
        self,
        store: ClaimStore,
        clock: Clock,
        metrics: LoopMetrics,
        *,
        jobs: int = 500,
        executions: int = 2_000,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._most_jobs = jobs
        self._most_executions = executions
        self._noted: dict[JobRun, None] = {}
        self._waiting = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def note(self, run: JobRun) -> None:
        """The run has something to say; it is asked for it when its turn to be written comes."""
        if not self._noted:
            self._idle.clear()
            self._waiting.set()
        self._noted[run] = None

    def forget(self, run: JobRun) -> None:
        self._noted.pop(run, None)

    async def idle(self) -> None:
        """Wait until all that was noted is written."""
        await self._idle.wait()

    async def run(self, settle: Settle) -> None:
        """Write until cancelled; `settle` hears which runs were written and which were refused."""
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            while self._noted:
                await self._flush(settle)
            self._idle.set()

    async def _flush(self, settle: Settle) -> None:
        runs = self._take()
        reports = [run.take_report() for run in runs]
        applied = await self._write(reports)
        self._metrics.recorded.observe(len(reports))
        await settle(runs, reports, applied)

    def _take(self) -> list[JobRun]:
        taken: list[JobRun] = []
        executions = 0
        for run in self._noted:
            taken.append(run)
            executions += run.unrecorded
            if len(taken) >= self._most_jobs or executions >= self._most_executions:
                break
        for run in taken:
            del self._noted[run]
        return taken

    async def _write(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await self._store.record(reports)
            except StoreUnavailableError as error:
                log.warning("results_wait_for_postgres", jobs=len(reports), error=str(error))
            except Exception:
                log.exception("results_not_recorded", jobs=len(reports))
                return await self._write_apart(reports)
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _write_apart(self, reports: Sequence[StageReport]) -> frozenset[JobId]:
        """One report spoils the write of all: find it, and end its job with a failure that says so."""
        if len(reports) > 1:
            half = len(reports) // 2
            return await self._write(reports[:half]) | await self._write(reports[half:])
        (report,) = reports
        if isinstance(report.verdict, Dead) and report.verdict.reason == NOT_RECORDABLE:
            return frozenset()  # it is delivered again, and deliveries are counted
        return await self._write([_unrecordable(report)])


def _unrecordable(report: StageReport) -> StageReport:
    failure = unstorable("the report of this job cannot be stored")
    verdict = Dead(JobState.FAILED, NOT_RECORDABLE, failure, report.claimed.context)
    failed = tuple(_failed(execution, failure) for execution in report.executions)
    return replace(report, executions=failed, verdict=verdict)


def _failed(report: ExecutionReport, failure: Failure) -> ExecutionReport:
    about = failure.model_copy(update={"item": report.execution.item})
    return replace(report, state=ExecutionState.FAILED, output=None, stored=None, failure=about)
