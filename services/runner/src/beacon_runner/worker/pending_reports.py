"""The runs that have something to record, until a writer takes them."""

import asyncio
from collections.abc import Sequence

from beacon_runner.worker.run import JobRun

START_DELAY_S = 0.1
MAX_JOBS = 1_000
MAX_EXECUTIONS = 2_000


class PendingReports:
    """Reports that are added during a write share the next one.

    The start of an execution is recorded after `START_DELAY_S`, and not separately if its result arrives
    before.
    """

    def __init__(self) -> None:
        self._waiting: dict[JobRun, None] = {}
        self._writing: set[JobRun] = set()
        self._started: dict[JobRun, None] = {}
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, run: JobRun) -> None:
        """The run has results to record; its report is built when the write starts."""
        self._started.pop(run, None)
        self._waiting[run] = None
        self._idle.clear()
        self._changed.set()

    def add_started(self, run: JobRun) -> None:
        """The run has only starts to record."""
        if not self._started:
            asyncio.get_running_loop().call_later(START_DELAY_S, self._add_all_started)
        self._started[run] = None

    def discard(self, run: JobRun) -> None:
        self._started.pop(run, None)
        self._waiting.pop(run, None)

    async def take(self) -> Sequence[JobRun]:
        """The next runs to write, at least one; the caller passes them to `written`.

        A run that is being written is left for later: its reports keep their order.
        """
        while not (taken := self._next()):
            if not self._waiting and not self._writing:
                self._idle.set()
            self._changed.clear()
            await self._changed.wait()
        self._writing.update(taken)
        return taken

    def written(self, runs: Sequence[JobRun]) -> None:
        self._writing.difference_update(runs)
        self._changed.set()

    async def wait_idle(self) -> None:
        """Wait until everything that was added is written."""
        await self._idle.wait()

    def _next(self) -> list[JobRun]:
        taken: list[JobRun] = []
        executions = 0
        for run in self._waiting:
            if run in self._writing:
                continue
            taken.append(run)
            executions += run.unrecorded
            if len(taken) >= MAX_JOBS or executions >= MAX_EXECUTIONS:
                break
        for run in taken:
            del self._waiting[run]
        return taken

    def _add_all_started(self) -> None:
        for run in list(self._started):
            self.add(run)
