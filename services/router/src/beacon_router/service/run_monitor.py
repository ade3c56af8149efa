"""What a backend reports of a run that is in progress: its id, whether it waits or runs, its progress."""

from collections.abc import Callable
from functools import partial

from beacon_contracts.inference import RemoteRun, RunProgress
from beacon_lifecycle import Clock
from beacon_router.service.inference import Inference, Run
from beacon_router.service.timers import Timers


class RunMonitor:
    """The observer of one run, which has a slot: its time limit, `limit_s`, begins."""

    __slots__ = (
        "_backend",
        "_cancel",
        "_clock",
        "_expire",
        "_limit_s",
        "_run",
        "_time_out",
        "_timers",
        "detached",
        "run_id",
    )

    def __init__(
        self,
        run: Run,
        limit_s: float,
        *,
        timers: Timers,
        clock: Clock,
        time_out: Callable[[Run, float], None],
        expire: Callable[[Run], None],
        cancel: Callable[[RemoteRun], None],
    ) -> None:
        self._limit_s = limit_s
        self._timers = timers
        self._clock = clock
        self._time_out = time_out
        self._expire = expire
        self._cancel = cancel
        self._run: Run | None = run
        self._backend = run.start.backend
        remote = run.inference.remote
        self.run_id = None if remote is None else remote.run_id
        self.detached = False
        self._limit(run)

    def end(self) -> None:
        """The run has ended. Without the cycle of references, no garbage collection has to find it."""
        self._run = None

    def submitting(self) -> None:
        self.waiting()

    def named(self, run_id: str) -> None:
        if (run := self._current()) is not None:
            run.inference.remote = RemoteRun(backend=run.start.backend, run_id=run_id)
            run.inference.notify_observers()

    def waiting(self) -> None:
        """What waits is not timed out, except by its `start_by`."""
        run = self._current()
        if run is None or run.waiting:
            return
        run.waiting = True
        if run.timeout is not None:
            run.timeout.cancel()
        start_by = run.inference.spec.start_by
        run.timeout = None if start_by is None else self._timers.at(start_by, partial(self._expire, run))
        run.inference.notify_observers()

    def running(self) -> None:
        run = self._current()
        if run is None or not (run.waiting or run.probes_start):
            return
        run.waiting = run.probes_start = False
        run.started_at = self._clock.now()
        if run.timeout is not None:
            run.timeout.cancel()
        self._limit(run)
        run.inference.notify_observers()

    def progressed(self, progress: RunProgress) -> None:
        run = self._current()
        if run is not None and run.inference.progress != progress:
            run.probes_start = False
            run.inference.progress = progress
            run.inference.notify_observers()

    def not_cancelled(self, run_id: str) -> None:
        self._cancel(RemoteRun(backend=self._backend, run_id=run_id))

    def _limit(self, run: Run) -> None:
        due = self._clock.now() + self._limit_s
        run.timeout = self._timers.at(due, partial(self._time_out, run, self._limit_s))

    def _current(self) -> Run | None:
        run = self._run
        return run if run is not None and run.inference.run is run else None


def forget_remote(inference: Inference) -> RemoteRun | None:
    """The run at a provider is not continued; returns it."""
    remote, inference.remote = inference.remote, None
    inference.progress = None
    return remote
