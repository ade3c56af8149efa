"""One owner per region: it has every run there from its start to its end, and always reports the end."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import structlog

from beacon_contracts.failures import FailureStage
from beacon_router.backends import Answer, Backend, BackendError, Result
from beacon_router.service.failures import stopped_running
from beacon_router.service.inference import Run

log = structlog.get_logger(__name__)


class RegionRuns:
    def __init__(self, name: str, backends: Mapping[str, Backend], ended: Callable[[Run], None]) -> None:
        self.name = name
        self._backends = backends
        self._ended = ended
        self._runs: set[Run] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._runs)

    def start(self, run: Run) -> None:
        """Have it run; `ended` is called once, later, however it ends."""
        self._runs.add(run)
        self._empty.clear()
        call = run.inference.call(run.number)
        told = partial(self._answered, run)
        try:
            run.attempt = self._backends[run.start.backend].start(call, told, run.inference.ask.sink)
        except BackendError as error:
            self._fail_soon(run, error)
        except Exception as error:
            # The context is that of whoever woke the scheduler, which may be another request.
            structlog.contextvars.clear_contextvars()
            log.exception("run_crashed", request=call.request_id, backend=run.start.backend)
            text = f"{type(error).__name__}: {error}"[:300]
            self._fail_soon(run, BackendError("internal_error", FailureStage.RUN, False, text))

    def stop(self, run: Run, why: BackendError) -> None:
        """End it: its connection is closed when this returns, and the end is reported."""
        if run in self._runs:
            if run.attempt is not None:
                run.attempt.cancel()
            run.stopped = why
            self._over(run)

    async def drain(self, grace_s: float) -> bool:
        """Let the runs end by themselves; true when all did in time."""
        try:
            async with asyncio.timeout(grace_s):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """End what still runs; idempotent."""
        for run in list(self._runs):
            self.stop(run, stopped_running())

    def _fail_soon(self, run: Run, error: BackendError) -> None:
        """Not at once: the scheduler is in the middle of its decisions."""
        asyncio.get_running_loop().call_soon(self._answered, run, error)

    def _answered(self, run: Run, result: Result) -> None:
        if run not in self._runs:
            return
        if isinstance(result, Answer):
            run.answer = result
        else:
            run.error = result
        self._over(run)

    def _over(self, run: Run) -> None:
        self._runs.discard(run)
        # The two know each other: left so, each run would wait for the collector, and all who ask for it.
        run.attempt = None
        if not self._runs:
            self._empty.set()
        self._ended(run)
