"""Where the jobs of a process are worked on: starts executions, hands results on, lets go of what is over."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Protocol

import structlog

from beacon_contracts.ids import JobId, encode_job_id
from beacon_lifecycle import Clock
from beacon_runner.domain.plan import Due
from beacon_runner.domain.stage_result import Dead, Returned, Verdict
from beacon_runner.domain.verdict import RetryPolicy, dead_state
from beacon_runner.worker.executor import Executor, Handle
from beacon_runner.worker.outcomes import Outcome, worker_error
from beacon_runner.worker.run import JobRun

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Seat:
    """A run and what belongs to it here: the pool's slot, and what it waits for."""

    run: JobRun
    free_slot: Callable[[], None]
    handles: dict[int, Handle] = field(default_factory=dict)
    filling: bool = False


class Notes(Protocol):
    """Where runs that have something to write are handed in."""

    def note(self, run: JobRun) -> None: ...

    def forget(self, run: JobRun) -> None: ...


class JobRunner:
    def __init__(
        self,
        executor: Executor,
        notes: Notes,
        clock: Clock,
        *,
        policy: RetryPolicy,
        parallelism: int,
        random: Random | None = None,
    ) -> None:
        self._executor = executor
        self._notes = notes
        self._clock = clock
        self._policy = policy
        self._parallelism = parallelism
        self._random = random or Random()  # noqa: S311 - spreads retries, keeps no secret
        self._seats: dict[JobId, Seat] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._seats)

    def __contains__(self, job: JobId) -> bool:
        return job in self._seats

    def begin(self, run: JobRun, free_slot: Callable[[], None]) -> JobRun | None:
        """Work on it. An older delivery of the same job, if one is here, is let go and returned: its fence is
        broken."""
        job = run.job.id
        older = self.let_go(job) if job in self._seats else None
        self._seats[job] = seat = Seat(run, free_slot)
        self._empty.clear()
        self._fill(seat)
        return older

    def confirm(self, run: JobRun) -> None:
        """What it has to say may be written from now on."""
        run.confirmed = True
        if not run.let_go:
            self._judge(self._seats[run.job.id])

    def let_go(self, job: JobId) -> JobRun | None:
        """Stop working on it and change nothing; what runs at the router is left to its new owner."""
        seat = self._seats.pop(job, None)
        if seat is None:
            return None
        if seat.handles:
            for handle in seat.handles.values():
                handle.cancel()
            seat.handles.clear()
        seat.run.let_go = True
        self._notes.forget(seat.run)
        seat.free_slot()
        if not self._seats:
            self._empty.set()
        return seat.run

    def find(self, message_ids: Iterable[str]) -> list[JobRun]:
        wanted = set(message_ids)
        return [seat.run for seat in self._seats.values() if seat.run.message.id in wanted]

    async def emptied(self, within_s: float) -> bool:
        """Wait until nothing is worked on any more; false when that took too long."""
        try:
            async with asyncio.timeout(within_s):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def return_all(self) -> None:
        """Give up what has not ended: the jobs go back as they are, with the results that they have."""
        for seat in self._seats.values():
            if seat.run.verdict is None:
                for handle in seat.handles.values():
                    handle.cancel()
                seat.handles.clear()
                seat.run.verdict = Returned()
                self._notes.note(seat.run)

    def _fill(self, seat: Seat) -> None:
        seat.filling = True
        while (started := seat.run.next_due(self._parallelism)) is not None:
            self._start(seat, started)
        seat.filling = False
        self._judge(seat)

    def _start(self, seat: Seat, started: Due) -> None:
        run, at = seat.run, self._clock.unix()
        try:
            handle = self._executor.start(run.job, started, partial(self._done, seat, started, at))
        except Exception as error:
            log.exception("execution_not_started", job=encode_job_id(run.job.id))
            run.finished(started, worker_error(error), at, at)
            return
        if handle is not None:
            seat.handles[started.execution.ordinal] = handle
            run.went_on(started, at)

    def _done(self, seat: Seat, started: Due, started_at: float, outcome: Outcome) -> None:
        seat.handles.pop(started.execution.ordinal, None)
        if seat.run.let_go:
            return
        seat.run.finished(started, outcome, started_at, self._clock.unix())
        if not seat.filling:  # otherwise the loop that started it goes on by itself
            self._fill(seat)

    def _judge(self, seat: Seat) -> None:
        run = seat.run
        if run.verdict is None and run.settled:
            run.verdict = self._verdict(run)
        if run.confirmed and (run.verdict is not None or run.unrecorded):
            self._notes.note(run)

    def _verdict(self, run: JobRun) -> Verdict:
        try:
            return run.judge(self._policy, self._random.random())
        except Exception as error:
            log.exception("job_not_judged", job=encode_job_id(run.job.id))
            failure = worker_error(error, retryable=False)
            state = dead_state(run.job, some_completed=run.some_completed)
            return Dead(state, failure.code, failure, run.job.context)
