"""One backend whose runs go on without a connection: submit, poll, collect the result, cancel.

A run is identified by the provider's id. With it, any router continues the run after the death of the one
that submitted it. ADR 20 has the rules.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import NamedTuple, Protocol

import structlog

from beacon_contracts.inference import RunProgress
from beacon_lifecycle import Clock
from beacon_router.backends.errors import (
    cancelled_remotely,
    means_no_instance,
    reported_error,
    run_timeout,
    run_unknown,
    submission_unanswered,
)
from beacon_router.backends.output_files import OutputFiles
from beacon_router.backends.types import (
    BackendCall,
    BackendError,
    BackendResult,
    RunObserver,
    Sink,
)

log = structlog.get_logger(__name__)

FIRST_POLL_S, MAX_POLL_S, POLL_GROWTH = 0.2, 5.0, 1.4
MAX_RETRY_AFTER_S = 60.0
FAILING_POLLS_TIMEOUT_S = 300.0
"""How long polls may fail before the attempt fails."""
LOST_AFTER_S = 30.0
"""Runs in the memory of a server are lost when none has been listening for so long."""
MAX_UNREADABLE_POLLS = 3
"""How many answers in a row may be unreadable before the attempt fails."""
MAX_UNKNOWN_POLLS = 3
"""A run that was submitted just now may be unknown for so many polls."""
SUBMIT_AGAIN_AFTER_S = (1.0, 4.0, 15.0)
"""Pauses before an unanswered submission is repeated, if that is harmless."""
_NOT_SENT = frozenset({"backend_unreachable", "tls_failed", "dns_failed"})


class CallTimeouts(NamedTuple):
    """How long each call of a provider may take. Files are streamed in the answer with the result."""

    submit_s: float = 60.0
    poll_s: float = 60.0
    result_s: float = 300.0
    cancel_s: float = 5.0


DEFAULT_TIMEOUTS = CallTimeouts()


class Phase(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class RemoteStatus(NamedTuple):
    phase: Phase
    progress: RunProgress | None = None
    error: str = ""
    retry_after_s: float | None = None


Watch = Callable[[BackendCall, str, Callable[[RunProgress], None], asyncio.Event], Awaitable[None]]
"""Of a call and its run: what to do with progress, and what to set when a poll is worth it."""


class RemoteApi(Protocol):
    """The API of one provider. All methods raise BackendError."""

    repeatable: bool
    """A repeated submission of the same attempt starts no second run."""
    durable: bool
    """Its runs survive a restart of its servers."""

    @property
    def watch(self) -> Watch | None:
        """Reports changes of a run between the polls, until cancelled."""
        ...

    def new_id(self) -> str | None:
        """The id of the next run; None: the provider chooses it."""
        ...

    async def submit(self, call: BackendCall, attempt: int, new_id: str | None) -> str:
        """The id of the new run."""
        ...

    async def status(self, run_id: str) -> RemoteStatus: ...

    async def result(self, call: BackendCall, run_id: str, outputs: OutputFiles) -> BackendResult:
        """Of a run that has completed."""
        ...

    async def cancel(self, run_id: str) -> None: ...


class RemoteBackend:
    def __init__(
        self,
        api: RemoteApi,
        clock: Clock,
        new_outputs: Callable[[], OutputFiles],
        *,
        run_timeout_s: float | None = None,
        scale_to_zero: bool = False,
        timeouts: CallTimeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self._api = api
        self._clock = clock
        self._new_outputs = new_outputs
        self._run_timeout_s = run_timeout_s
        self._scale_to_zero = scale_to_zero
        self._timeouts = timeouts

    @property
    def remote(self) -> "RemoteBackend":
        return self

    async def run(
        self,
        call: BackendCall,
        *,
        attempt: int = 1,
        sink: Sink | None = None,  # noqa: ARG002
        observer: RunObserver | None = None,
    ) -> BackendResult:
        if observer is None:
            raise TypeError("a run at a provider needs an observer")
        observer.submitting()
        run_id = observer.run_id or await self._submit(call, attempt, observer)
        outputs = self._new_outputs()
        try:
            async with self._watched(call, run_id, observer) as changed:
                await self._follow(run_id, observer, changed)
            return await self._collect(call, run_id, outputs)
        except asyncio.CancelledError:
            await outputs.discard()
            if not observer.detached:
                await self._try_cancel(run_id, observer)
            raise
        except BackendError:
            await outputs.discard()
            raise

    async def cancel(self, run_id: str) -> None:
        try:
            async with asyncio.timeout(self._timeouts.cancel_s):
                await self._api.cancel(run_id)
        except TimeoutError as error:
            raise run_timeout(self._timeouts.cancel_s) from error
        except BackendError as error:
            if error.status not in (400, 404, 409, 410, 422):  # it has ended, or is unknown
                raise

    async def _submit(self, call: BackendCall, attempt: int, observer: RunObserver) -> str:
        """A cancelled call waits for the answer, so that the run can be cancelled or found again."""
        new_id = self._api.new_id()
        if new_id is not None:
            observer.named(new_id)  # before the run exists, so that it is found after the router's death
        submission = asyncio.ensure_future(self._submitted(call, attempt, observer, new_id))
        try:
            return await asyncio.shield(submission)
        except asyncio.CancelledError:
            run_id = await self._possible_run(submission, new_id)
            if run_id is not None and not observer.detached:
                await self._try_cancel(run_id, observer)
            raise

    async def _possible_run(self, submission: asyncio.Future[str], new_id: str | None) -> str | None:
        """The id of what was or may have been submitted, if it is known."""
        try:
            async with asyncio.timeout(self._timeouts.cancel_s):
                return await submission
        except TimeoutError:
            return new_id
        except BackendError:  # none, or it was cancelled
            return None

    async def _submitted(
        self, call: BackendCall, attempt: int, observer: RunObserver, new_id: str | None
    ) -> str:
        """Without an answer, it is repeated if the provider takes that for the same run."""
        pauses = iter(SUBMIT_AGAIN_AFTER_S if self._api.repeatable else ())
        run_id: str | None = None
        while run_id is None:
            try:
                run_id = await self._submit_once(call, attempt, new_id)
            except BackendError as error:
                if not is_ambiguous(error) or (self._scale_to_zero and means_no_instance(error)):
                    raise
                pause_s = next(pauses, None)
                if pause_s is None:
                    log.warning("submission_unanswered", request=call.id, reason=str(error))
                    if new_id is not None:
                        await self._try_cancel(new_id, observer)
                    raise submission_unanswered(error.message) from error
                await self._clock.sleep(pause_s)
        if run_id != new_id:
            observer.named(run_id)
        return run_id

    async def _submit_once(self, call: BackendCall, attempt: int, new_id: str | None) -> str:
        try:
            async with asyncio.timeout(self._timeouts.submit_s):
                return await self._api.submit(call, attempt, new_id)
        except TimeoutError as error:
            raise run_timeout(self._timeouts.submit_s) from error

    @asynccontextmanager
    async def _watched(
        self, call: BackendCall, run_id: str, observer: RunObserver
    ) -> AsyncIterator[asyncio.Event]:
        changed = asyncio.Event()
        if self._api.watch is None:
            yield changed
            return
        watching = asyncio.ensure_future(self._api.watch(call, run_id, observer.progressed, changed))
        try:
            yield changed
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _follow(self, run_id: str, observer: RunObserver, changed: asyncio.Event) -> None:
        """Until the run has completed; any other end raises."""
        polls = _Polls(self._clock)
        unknown_left = 0 if observer.run_id else MAX_UNKNOWN_POLLS
        if not observer.run_id:
            await self._pause(polls.next_delay_s(None), changed)
        while True:
            status = await self._status(run_id, polls, observer)
            if status is not None:
                if status.phase is Phase.COMPLETED:
                    return
                if status.phase is Phase.UNKNOWN and unknown_left:
                    unknown_left -= 1
                else:
                    _report(status, polls, observer)
            if self._run_timeout_s is not None and polls.ran_s() > self._run_timeout_s:
                await self._try_cancel(run_id, observer)
                raise run_timeout(self._run_timeout_s)
            await self._pause(polls.next_delay_s(status), changed)

    async def _pause(self, seconds: float, changed: asyncio.Event) -> None:
        """Less if the run has changed."""
        if self._api.watch is None:
            await self._clock.sleep(seconds)
            return
        waits = [asyncio.ensure_future(self._clock.sleep(seconds)), asyncio.ensure_future(changed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            changed.clear()
        finally:
            for wait in waits:
                wait.cancel()

    async def _status(self, run_id: str, polls: "_Polls", observer: RunObserver) -> RemoteStatus | None:
        """None: the poll failed, and is repeated. One lost poll says nothing about the run."""
        try:
            async with asyncio.timeout(self._timeouts.poll_s):
                status = await self._api.status(run_id)
        except TimeoutError:
            failure = run_timeout(self._timeouts.poll_s)
        except BackendError as error:
            failure = error
        else:
            polls.succeeded()
            return status
        is_lost = failure.code == "backend_unreachable" and not self._api.durable
        timeout_s = LOST_AFTER_S if is_lost else FAILING_POLLS_TIMEOUT_S
        if failure.fault is not None or polls.failed(failure, timeout_s):
            failure.remote_alive = failure.retryable and not is_lost
            if not failure.remote_alive:
                await self._try_cancel(run_id, observer)
            raise failure
        return None

    async def _collect(self, call: BackendCall, run_id: str, outputs: OutputFiles) -> BackendResult:
        """The run has completed: if the result cannot be read now, the next attempt reads it."""
        try:
            async with asyncio.timeout(self._timeouts.result_s):
                return await self._api.result(call, run_id, outputs)
        except TimeoutError as error:
            failure = run_timeout(self._timeouts.result_s)
            failure.remote_alive = True
            raise failure from error
        except BackendError as error:
            error.remote_alive = error.retryable
            raise

    async def _try_cancel(self, run_id: str, observer: RunObserver) -> None:
        try:
            await self.cancel(run_id)
        except BackendError as error:
            log.warning("remote_cancel_failed", run_id=run_id, reason=str(error))
            observer.not_cancelled(run_id)


def _report(status: RemoteStatus, polls: "_Polls", observer: RunObserver) -> None:
    """Raises if the run has ended without a result."""
    match status.phase:
        case Phase.WAITING:
            polls.running(running=False)
            observer.waiting()
        case Phase.RUNNING:
            polls.running(running=True)
            observer.running()
            if status.progress is not None:
                observer.progressed(status.progress)
        case Phase.FAILED:
            raise reported_error(status.error or "the backend reports that the run failed")
        case Phase.TIMED_OUT:
            raise run_timeout(polls.ran_s())
        case Phase.CANCELLED:
            raise cancelled_remotely()
        case _:
            raise run_unknown()


class _Polls:
    """When the next poll is due, how long the run has been running and how long polls have failed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running_since: float | None = None
        self._delay_s = FIRST_POLL_S
        self._failing_since: float | None = None
        self._unreadable = 0
        self._retry_after_s: float | None = None

    def running(self, *, running: bool) -> None:
        if not running:
            self._running_since = None
        elif self._running_since is None:
            self._running_since = self._clock.now()

    def ran_s(self) -> float:
        """How long it has been seen running."""
        return 0.0 if self._running_since is None else self._clock.now() - self._running_since

    def succeeded(self) -> None:
        self._failing_since = self._retry_after_s = None
        self._unreadable = 0

    def failed(self, error: BackendError, timeout_s: float) -> bool:
        """True: they have failed for too long."""
        now = self._clock.now()
        self._failing_since = self._failing_since if self._failing_since is not None else now
        self._retry_after_s = error.retry_after_s
        self._unreadable += error.code == "bad_payload"
        return self._unreadable == MAX_UNREADABLE_POLLS or now - self._failing_since >= timeout_s

    def next_delay_s(self, status: RemoteStatus | None) -> float:
        asked_s = self._retry_after_s if status is None else status.retry_after_s
        delay_s, self._delay_s = self._delay_s, min(MAX_POLL_S, self._delay_s * POLL_GROWTH)
        return max(delay_s, min(asked_s or 0.0, MAX_RETRY_AFTER_S))


def is_ambiguous(error: BackendError) -> bool:
    """The provider may have accepted the submission."""
    if error.code in _NOT_SENT:
        return False
    return error.status in (408, 502, 504) or (
        error.status is None and error.code in ("connection_lost", "bad_payload", "run_timeout")
    )
