"""Writes what runs have to say. Whatever was noted while a write was under way shares the next one.

A crowd does not wait for the disk: a second write begins beside the first when it would be a large one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import structlog

from beacon_contracts.failures import Failure
from beacon_contracts.ids import JobId
from beacon_contracts.jobs import ExecutionState
from beacon_lifecycle import Clock
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.json_limits import NOT_RECORDABLE, unstorable
from beacon_runner.domain.stage_result import Dead, ExecutionReport, StageReport
from beacon_runner.domain.verdict import dead_state
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.claims import ClaimStore
from beacon_runner.worker.run import JobRun

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
        jobs: int = 1_000,
        executions: int = 2_000,
        crowd: int = 200,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._most_jobs = jobs
        self._most_executions = executions
        self._crowd = crowd
        self._noted: dict[JobRun, None] = {}
        self._writing: set[JobRun] = set()
        self._waiting = asyncio.Event()
        self._crowded = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def note(self, run: JobRun) -> None:
        """The run has something to say; it is asked for it when its turn to be written comes."""
        self._noted[run] = None
        if len(self._noted) == 1:
            self._idle.clear()
            self._waiting.set()
        elif len(self._noted) == self._crowd:
            self._crowded.set()

    def forget(self, run: JobRun) -> None:
        self._noted.pop(run, None)

    async def idle(self) -> None:
        """Wait until all that was noted is written."""
        await self._idle.wait()

    async def run(self, settle: Settle) -> None:
        """Write until cancelled; `settle` hears which runs were written and which were refused."""
        await self._write_when(self._waiting, 1, settle)

    async def help(self, settle: Settle) -> None:
        """The same, only when a crowd waits."""
        await self._write_when(self._crowded, self._crowd, settle)

    async def _write_when(self, enough: asyncio.Event, least: int, settle: Settle) -> None:
        while True:
            await enough.wait()
            enough.clear()
            while len(self._noted) >= least and (runs := self._take()):
                await self._flush(runs, settle)
            if not self._noted and not self._writing:
                self._idle.set()

    async def _flush(self, runs: Sequence[JobRun], settle: Settle) -> None:
        self._writing.update(runs)
        reports = [run.take_report() for run in runs]
        applied = await self._write(reports)
        self._metrics.recorded.observe(len(reports))
        await settle(runs, reports, applied)
        self._writing.difference_update(runs)
        if self._noted:  # perhaps again by one of these
            self._waiting.set()

    def _take(self) -> list[JobRun]:
        """The first of those that wait; none that is being written: its reports have an order."""
        taken: list[JobRun] = []
        executions = 0
        for run in self._noted:
            if run in self._writing:
                continue
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
    some = any(known.state is ExecutionState.COMPLETED for known in report.claimed.known)
    state = dead_state(report.claimed, some_completed=some)
    verdict = Dead(state, NOT_RECORDABLE, failure, report.claimed.context)
    failed = tuple(_failed(execution, failure) for execution in report.executions)
    return replace(report, executions=failed, verdict=verdict)


def _failed(report: ExecutionReport, failure: Failure) -> ExecutionReport:
    about = failure.model_copy(update={"item": report.execution.item})
    return replace(report, state=ExecutionState.FAILED, output=None, stored=None, failure=about)
