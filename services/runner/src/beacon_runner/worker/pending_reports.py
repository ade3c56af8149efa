"""The runs that have something to record, until a writer takes them."""

import asyncio
from collections.abc import Sequence

from beacon_runner.worker.run import JobRun

DELAY_S = 0.1
MAX_JOBS = 1_000
MAX_EXECUTIONS = 2_000


class PendingReports:
    """Reports that are added during a write share the next one.

    That an execution waits or runs is recorded `DELAY_S` later, and not separately if it has ended by then.
    """

    def __init__(self) -> None:
        self._waiting: dict[JobRun, None] = {}
        self._writing: set[JobRun] = set()
        self._delayed: dict[JobRun, float] = {}  # in the order of the times when they are due
        self._timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, run: JobRun) -> None:
        """The run has results to record; its report is built when the write starts."""
        self._delayed.pop(run, None)
        self._waiting[run] = None
        self._idle.clear()
        self._changed.set()

    def add_later(self, run: JobRun) -> None:
        """The run has no results to record, but executions that wait or run now."""
        loop = asyncio.get_running_loop()
        self._delayed.setdefault(run, loop.time() + DELAY_S)
        if self._timer is None:
            self._timer = loop.call_later(DELAY_S, self._add_due)

    def discard(self, run: JobRun) -> None:
        self._delayed.pop(run, None)
        self._waiting.pop(run, None)

    async def take(self) -> Sequence[JobRun]:
        """The next runs to write, at least one; the caller passes them to `written`.

        A run that is being written is left for later: its reports keep their order.
        """
        while True:
            taken: list[JobRun] = []
            executions = 0
            for run in self._waiting:
                if run in self._writing:
                    continue
                taken.append(run)
                executions += run.unrecorded
                if len(taken) >= MAX_JOBS or executions >= MAX_EXECUTIONS:
                    break
            if taken:
                for run in taken:
                    del self._waiting[run]
                self._writing.update(taken)
                return taken
            if not self._waiting and not self._writing:
                self._idle.set()
            self._changed.clear()
            await self._changed.wait()

    def written(self, runs: Sequence[JobRun]) -> None:
        self._writing.difference_update(runs)
        self._changed.set()

    async def wait_idle(self) -> None:
        """Wait until everything that was added is written."""
        await self._idle.wait()

    def _add_due(self) -> None:
        loop = asyncio.get_running_loop()
        now, self._timer = loop.time(), None
        while self._delayed:
            run, due = next(iter(self._delayed.items()))
            if due > now:
                self._timer = loop.call_at(due, self._add_due)
                return
            del self._delayed[run]
            if run.unrecorded:  # nothing is left if it was written with other results
                self.add(run)
