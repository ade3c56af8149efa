"""Performs the scheduler's decisions. Nothing polls: each step follows an event or a timer."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import assert_never

import structlog

from beacon_contracts.failures import Failure
from beacon_contracts.inference import InferenceState, RemoteRun
from beacon_lifecycle import Clock
from beacon_router.backends import Backend, BackendError, BackendResult
from beacon_router.backends.errors import RUN_UNKNOWN
from beacon_router.scheduling import Expired, Outcome, Request, RequestId, Scheduler, Start
from beacon_router.service.breakers import Breakers
from beacon_router.service.failures import (
    cancelled,
    capacity_lost,
    client_stopped_reading,
    client_too_slow,
    failure_of,
    model_removed,
    start_by_passed,
    stopped_running,
    timed_out,
)
from beacon_router.service.inference import Inference, Run
from beacon_router.service.inference_store import InferenceStore
from beacon_router.service.outcome import RunOutcome, classify
from beacon_router.service.run_events import RunEvents
from beacon_router.service.run_monitor import RunMonitor, forget_remote
from beacon_router.service.run_rules import RunRules
from beacon_router.service.run_tasks import RunTasks, log_left_run
from beacon_router.service.timers import Timer, Timers

log = structlog.get_logger(__name__)


class RunController:
    """Reports facts to the scheduler and turns its decisions into runs."""

    def __init__(
        self,
        scheduler: Scheduler,
        rules: RunRules,
        *,
        backends: Mapping[str, Backend],
        store: InferenceStore,
        breakers: Breakers,
        timers: Timers,
        clock: Clock,
        events: RunEvents,
    ) -> None:
        self._scheduler = scheduler
        self._rules = rules
        self._store = store
        self._breakers = breakers
        self._timers = timers
        self._clock = clock
        self._events = events
        self._tasks = RunTasks(backends, self._run_ended, clock)
        self._backing_off: dict[RequestId, Inference] = {}
        self._loading: set[tuple[str, str]] = set()
        self._ended: list[Inference] = []
        """Their waiters are notified after the next dispatch."""
        self._wakeup: Timer | None = None
        self._wakeup_at: float | None = None
        self._expiry: Timer | None = None
        self.draining = False

    @property
    def failed(self) -> asyncio.Event:
        """Set after a defect of the router itself; failed runs are no defect."""
        return self._tasks.failed

    @property
    def failure(self) -> BaseException | None:
        return self._tasks.failure

    @property
    def backing_off(self) -> int:
        return len(self._backing_off)

    def waiting(self) -> int:
        """Accepted, not running and not ended."""
        return self._scheduler.waiting() + len(self._backing_off)

    # Commands

    def adopt(self, rules: RunRules, ranks: Sequence[int], unserved: Iterable[RequestId]) -> None:
        """Go on by these rules. `ranks`: the new rank of each old one; `unserved` no longer wait and have
        failed. `dispatch_ready` must follow."""
        self._rules = rules
        for live in self._store.live():
            live.spec = live.spec._replace(rank=ranks[live.spec.rank])
        for request in unserved:
            inference = self._store.get(request)
            if inference is not None:
                removed = model_removed(inference.spec.model, inference.spec.region)
                self.terminate(inference, InferenceState.FAILED, failure_of(removed))

    def enqueue(self, inference: Inference, now: float) -> None:
        """`dispatch_ready` must follow. After an error of the scheduler nothing has changed."""
        self._scheduler.submit(now, _request_of(inference))
        self._store.add(inference)

    def move_to_front(self, inference: Inference) -> None:
        inference.front = True
        self._scheduler.to_front(inference.id)
        self.dispatch_ready()

    def terminate(self, inference: Inference, state: InferenceState, failure: Failure) -> None:
        """End it in any state: queued, backing off or running. `dispatch_ready` must follow."""
        run = inference.run
        if run is not None:
            inference.run = None
            self._stop(run, cancelled())
        else:
            if inference.id in self._backing_off:
                self._leave_backoff(inference)
            else:
                self._scheduler.cancel(inference.id)
            if not self.draining and (remote := forget_remote(inference)) is not None:
                self._cancel_remote(remote)
        self._end(inference, state, failure)

    def requeue(self, run: Run) -> None:
        """Abort a run that has lost its share of a limit. It waits again, and no attempt is charged; only a
        stream that the client has begun to read cannot be repeated. A run at a provider goes on there and is
        continued: another router may follow it by now. `dispatch_ready` must follow."""
        inference, sink, attempts = run.inference, run.inference.spec.sink, run.inference.attempts
        if self.draining or (sink is not None and sink.begun):
            self.terminate(inference, InferenceState.FAILED, failure_of(capacity_lost()))
            return
        log.warning("run_requeued", inference=inference.id, backend=run.start.backend)
        inference.run = None
        run.monitor.detached = inference.remote is not None
        self._stop(run, capacity_lost())
        now = self._clock.now()
        inference.attempts = attempts
        inference.state = InferenceState.QUEUED
        inference.waiting_since = now
        if self._is_served(inference):
            self._scheduler.requeue(now, _request_of(inference))
            inference.notify_observers()

    def dispatch_ready(self) -> None:
        """Start all that can run now, then notify the waiters of inferences that have ended."""
        for before_dispatch in self._events.before_dispatch:
            before_dispatch()
        now = self._clock.now()
        for decision in self._scheduler.next(now):
            match decision:
                case Start():
                    self._start(decision, now)
                case Expired():
                    self._expire(decision.id)
                case _:
                    assert_never(decision)
        wakeup_at = self._scheduler.next_wakeup()
        if wakeup_at != self._wakeup_at:
            self._plan_wakeup(wakeup_at)
        for dispatched in self._events.dispatched:
            dispatched()
        ended, self._ended = self._ended, []
        for inference in ended:
            inference.notify_waiters()

    async def drain(self, grace_s: float) -> None:
        """Retry nothing, wait up to `grace_s` for the runs to end, then stop the others. Runs at providers go
        on there."""
        self.draining = True
        for run in await self._tasks.drain(grace_s):
            run.monitor.detached = run.inference.remote is not None  # without an id, nobody finds it again
            self._stop(run, stopped_running())
        await self._tasks.close()

    # Runs

    def _start(self, start: Start, now: float) -> None:
        inference = self._store.get(start.id)
        if inference is None:
            raise RuntimeError(f"the scheduler started {start.id}, which is not known")
        spec = inference.spec
        key = (start.backend, spec.model)
        if start.needs_load:
            self._loading.add(key)
        # Until a first run there has completed, each run may have to wait for the same load.
        cold = key in self._loading
        limit_s = self._rules.timeouts.seconds(spec.model, cold=cold, timeout_s=spec.timeout_s)
        run = Run(inference, start, len(inference.attempts) + 1, now, cold)
        run.probes_start = self._breakers.is_starting(start.backend)
        run.monitor = RunMonitor(
            run,
            limit_s,
            timers=self._timers,
            clock=self._clock,
            time_out=self._time_out,
            expire=self._expire_run,
            cancel=self._cancel_remote,
        )
        if spec.sink is not None:
            spec.sink.on_stall(partial(self._reader_stalled, run))
        inference.run = run
        inference.state = InferenceState.WARMING if cold else InferenceState.RUNNING
        inference.actual_region, inference.backend = start.region, start.backend
        self._tasks.start(run)
        inference.notify_observers()
        for started in self._events.run_started:
            started(run)

    def _stop(self, run: Run, reason: BackendError) -> None:
        """Cancel a run; its slot is free at once."""
        if self._tasks.cancel(run):
            self._run_ended(run, reason, stopped=True)

    def _cancel_remote(self, remote: RemoteRun) -> None:
        if not self.draining:
            self._tasks.cancel_remote(remote)

    def _time_out(self, run: Run, limit_s: float) -> None:
        sink = run.inference.spec.sink
        client_stalled = sink is not None and sink.was_stalled
        self._stop(run, client_too_slow(limit_s) if client_stalled else timed_out(limit_s, cold=run.cold))

    def _expire_run(self, run: Run) -> None:
        """`start_by` has passed while it waited at its provider."""
        self.terminate(run.inference, InferenceState.FAILED, _failure_past_start_by(run.inference))
        self.dispatch_ready()

    def _reader_stalled(self, run: Run, stalled: bool) -> None:
        """A client that has stopped reading its stream does not keep a slot."""
        if run.reader_timeout is not None:
            run.reader_timeout.cancel()
            run.reader_timeout = None
        if stalled:
            after_s = self._rules.reader_timeout_s
            reason = client_stopped_reading(after_s)
            run.reader_timeout = self._timers.after(after_s, partial(self._stop, run, reason))

    def _run_ended(self, run: Run, result: BackendResult | BackendError, *, stopped: bool = False) -> None:
        """Free the slot, decide what follows, assign the slot again."""
        now = self._clock.now()
        run.monitor.end()
        for timer in (run.timeout, run.reader_timeout):
            if timer is not None:
                timer.cancel()
        outcome = classify(run, result, now, stopped=stopped)
        run.inference.attempts = (*run.inference.attempts, outcome.attempt)
        self._report_outcome(run, outcome, now)
        for run_ended in self._events.run_ended:
            run_ended(run, outcome)
        if run.inference.run is run:
            self._conclude(run, result, now)
            self.dispatch_ready()

    def _report_outcome(self, run: Run, outcome: RunOutcome, now: float) -> None:
        """Inform the scheduler and the breaker."""
        backend, model, error = run.start.backend, run.inference.spec.model, outcome.error
        self._scheduler.finished(
            now,
            run.start.id,
            outcome.outcome,
            load_s=outcome.measured_load_s,
            run_s=outcome.measured_run_s,
        )
        if error is None:
            self._breakers.succeeded(backend)
            if run.cold:
                self._loading.discard((backend, model))
                self._scheduler.model_loaded(now - (outcome.measured_run_s or 0.0), backend, model)
            return
        if outcome.outcome is Outcome.FAILED:
            self._breakers.failed(backend, error)
        if run.cold or error.model_state_unknown:
            # The model was not seen loaded, so the next run gets the time to load it.
            self._scheduler.model_lost(backend, model)

    # Inferences

    def _conclude(self, run: Run, result: BackendResult | BackendError, now: float) -> None:
        """Completed, failed, or another attempt later."""
        inference = run.inference
        inference.run = None
        inference.waiting_since = now
        if isinstance(result, BackendError) and not result.remote_alive:
            forget_remote(inference)
        if not isinstance(result, BackendError):
            inference.output, inference.response = result.output, result.response
            inference.usage, inference.files = result.usage, result.files
            self._end(inference, InferenceState.COMPLETED, None)
            return
        no_instance = self._breakers.has_no_instance(run.start.backend, result)
        if (result.fault is not None or no_instance) and not self.draining:
            self._wait_for_another_backend(run, result, now)
            return
        if result.code == RUN_UNKNOWN and run.monitor.run_id is not None and not self.draining:
            self._run_anew(run, now)
            return
        due = self._next_attempt_at(inference, result, now)
        _log_failure(run, result, None if due is None else due - now)
        if due is None:
            if not self.draining and (remote := forget_remote(inference)) is not None:
                self._cancel_remote(remote)
            self._end(inference, InferenceState.FAILED, failure_of(result))
        else:
            inference.state = InferenceState.BACKOFF
            inference.retry_at = due
            inference.retry = self._timers.at(due, partial(self._retry, inference))
            self._backing_off[inference.id] = inference
            inference.notify_observers()

    def _wait_for_another_backend(self, run: Run, error: BackendError, now: float) -> None:
        """The backend can serve no request: its breaker is open or it starts, and no attempt is charged."""
        inference = run.inference
        inference.attempts = inference.attempts[:-1]
        inference.state = InferenceState.QUEUED
        if not self._breakers.is_starting(run.start.backend):
            log.warning(
                "backend_faulty",
                backend=run.start.backend,
                inference=inference.id,
                code=error.code,
                cause=error.message,
            )
        if self._is_served(inference):
            self._scheduler.retry(now, _request_of(inference), run.start.region, inference.tried)
            inference.notify_observers()

    def _run_anew(self, run: Run, now: float) -> None:
        """The run that was to be continued is unknown at its provider: no attempt is charged."""
        inference = run.inference
        inference.attempts = inference.attempts[:-1]
        inference.state = InferenceState.QUEUED
        log.warning("remote_run_lost", backend=run.start.backend, inference=inference.id)
        if self._is_served(inference):
            self._scheduler.submit(now, _request_of(inference))
            inference.notify_observers()

    def _is_served(self, inference: Inference) -> bool:
        """False: the configuration has no backend for it any more, and it has ended."""
        remote, spec = inference.remote, inference.spec
        if remote is not None and not self._scheduler.serves(remote.backend, spec.model):
            forget_remote(inference)
            log_left_run(remote)
        if inference.remote is None and not self._scheduler.can_serve(_request_of(inference)):
            removed = model_removed(spec.model, spec.region)
            self._end(inference, InferenceState.FAILED, failure_of(removed))
            return False
        return True

    def _next_attempt_at(self, inference: Inference, error: BackendError, now: float) -> float | None:
        sink = inference.spec.sink
        if not error.retryable or self.draining or (sink is not None and sink.begun):
            return None
        return self._rules.retries.next_attempt_at(
            now,
            attempts_made=len(inference.attempts),
            start_by=None if error.remote_alive else inference.spec.start_by,
        )

    def _retry(self, inference: Inference) -> None:
        """The backoff has ended: a region in which it has not failed takes it, or its own if it is pinned."""
        self._leave_backoff(inference)
        inference.state = InferenceState.QUEUED
        if self._is_served(inference):
            failed_in = inference.attempts[-1].region
            self._scheduler.retry(self._clock.now(), _request_of(inference), failed_in, inference.tried)
        self.dispatch_ready()

    def _leave_backoff(self, inference: Inference) -> None:
        del self._backing_off[inference.id]
        if inference.retry is not None:
            inference.retry.cancel()
        inference.retry = inference.retry_at = None

    def _expire(self, request: RequestId) -> None:
        """`start_by` has passed before a slot was free."""
        inference = self._store.get(request)
        if inference is not None:
            self._end(inference, InferenceState.FAILED, _failure_past_start_by(inference))

    def _end(self, inference: Inference, state: InferenceState, failure: Failure | None) -> None:
        inference.state = state
        inference.failure = failure
        inference.ended_at = self._clock.now()
        self._store.finish(inference)
        if self._expiry is None:
            self._plan_expiry()
        for inference_ended in self._events.inference_ended:
            inference_ended(inference)
        self._ended.append(inference)

    # Timers

    def _plan_wakeup(self, moment: float | None) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
        self._wakeup_at = moment
        self._wakeup = None if moment is None else self._timers.at(moment, self._wake)

    def _wake(self) -> None:
        self._wakeup = self._wakeup_at = None
        self.dispatch_ready()

    def _plan_expiry(self) -> None:
        moment = self._store.next_expiry()
        self._expiry = None if moment is None else self._timers.at(moment, self._drop_expired)

    def _drop_expired(self) -> None:
        self._store.drop_expired(self._clock.now())
        self._plan_expiry()


def _request_of(inference: Inference) -> Request:
    """A run at a provider that is to be continued has started before: it has no `start_by`."""
    spec, remote = inference.spec, inference.remote
    return Request(
        id=spec.id,
        model=spec.model,
        region=spec.region,
        rank=spec.rank,
        pinned=spec.pinned,
        front=inference.front,
        start_by=spec.start_by if remote is None else None,
        size=spec.work_size,
        user=spec.user_id,
        weight=spec.weight,
        following=spec.following,
        needs=spec.needs,
        backend=None if remote is None else remote.backend,
    )


def _failure_past_start_by(inference: Inference) -> Failure:
    """After a failed attempt, its failure is the result."""
    return inference.last_failure or failure_of(start_by_passed())


def _log_failure(run: Run, error: BackendError, retry_in_s: float | None) -> None:
    log.warning(
        "attempt_failed",
        inference=run.inference.id,
        backend=run.start.backend,
        number=run.number,
        code=error.code,
        reason=error.message,
        retry_in_s=retry_in_s,
    )
