"""One task per run: calls the backend and always reports how the call ended."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextvars import Context

import structlog

from beacon_contracts.inference import RemoteRun
from beacon_lifecycle import Clock, TaskSet
from beacon_router.backends import Backend, BackendError, BackendResult
from beacon_router.backends.types import RemoteControl
from beacon_router.service.failures import internal_error
from beacon_router.service.inference import Run

log = structlog.get_logger(__name__)

CANCEL_AGAIN_AFTER_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


def log_left_run(
    remote: RemoteRun, reason: str = "no backend of that name serves the model any more"
) -> None:
    """The run may go on at its provider, although nobody waits for its result."""
    log.warning("remote_run_not_cancelled", backend=remote.backend, run_id=remote.run_id, reason=reason)


class RunTasks:
    """`ended` is called once per run with its result, unless the run is cancelled first."""

    def __init__(
        self,
        backends: Mapping[str, Backend],
        ended: Callable[[Run, BackendResult | BackendError], None],
        clock: Clock,
    ) -> None:
        self._backends = backends
        self._clock = clock
        self._ended = ended
        self._tasks = TaskSet("runs")
        self._running: dict[Run, asyncio.Task[None]] = {}
        self._closing: defaultdict[str, set[asyncio.Task[None]]] = defaultdict(set)
        """Cancelled calls whose connections are not closed yet, by backend."""

    @property
    def failed(self) -> asyncio.Event:
        """Set after a defect of the router itself."""
        return self._tasks.failed

    @property
    def failure(self) -> BaseException | None:
        return self._tasks.failure

    def start(self, run: Run) -> None:
        # In a new context: the current one belongs to the request that caused the dispatch.
        self._running[run] = self._tasks.spawn(run.start.id, self._perform(run), context=Context())

    def cancel(self, run: Run) -> bool:
        """False: it has ended already. The next call to the backend waits until the connection is closed."""
        task = self._running.pop(run, None)
        if task is None:
            return False
        closing = self._closing[run.start.backend]
        closing.add(task)
        task.add_done_callback(closing.discard)
        task.cancel()
        monitor = run.monitor
        if monitor.run_id is not None and not run.called and not monitor.detached:
            self.cancel_remote(RemoteRun(backend=run.start.backend, run_id=monitor.run_id))
        return True

    def cancel_remote(self, remote: RemoteRun) -> None:
        """Cancel a run at its provider that no task follows. Repeated for a while if the provider fails."""
        backend = self._backends.get(remote.backend)
        if backend is not None and backend.remote is not None:
            cancelling = self._cancel(backend.remote, remote)
            self._tasks.spawn(f"cancel {remote.run_id}", cancelling, context=Context())

    async def drain(self, grace_s: float) -> list[Run]:
        """Wait for the runs to end; those that have not ended in time are returned."""
        await self._tasks.drain(grace_s)
        return list(self._running)

    async def close(self) -> None:
        await self._tasks.close()

    async def _cancel(self, control: RemoteControl, remote: RemoteRun) -> None:
        reason = ""
        for pause_s in (0.0, *CANCEL_AGAIN_AFTER_S):
            await self._clock.sleep(pause_s)
            try:
                await control.cancel(remote.run_id)
            except BackendError as error:
                reason = error.message
            else:
                return
        log_left_run(remote, reason)

    async def _perform(self, run: Run) -> None:
        spec, backend = run.inference.spec, run.start.backend
        if self._closing[backend]:
            # The backend must see the end of a cancelled call before it gets the next one.
            await asyncio.wait(list(self._closing[backend]))
        result: BackendResult | BackendError
        run.called = True
        try:
            result = await self._backends[backend].run(
                spec, attempt=run.number, sink=spec.sink, observer=run.monitor
            )
        except BackendError as error:
            result = error.with_traceback(None)  # its frames have the bodies of the call, and this frame
        except Exception as error:
            log.exception("run_crashed", inference=spec.id, backend=backend)
            result = internal_error(error)
        if self._running.pop(run, None) is not None:
            self._ended(run, result)
