"""Carries out what the scheduler decides. Nothing here polls: every step follows a fact or a timer."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, assert_never

import structlog

from beacon_contracts.inference import InferenceState
from beacon_lifecycle import Clock
from beacon_router.backends import BackendError
from beacon_router.scheduling import Expired, Outcome, RequestId, Scheduler, Start
from beacon_router.service.backoff import RetryPolicy
from beacon_router.service.breakers import Breakers
from beacon_router.service.failures import (
    cancelled,
    client_stopped_reading,
    client_too_slow,
    start_by_passed,
    stopped_running,
)
from beacon_router.service.inference import Inference, Run
from beacon_router.service.inference_store import Held
from beacon_router.service.limits import RunLimits
from beacon_router.service.observer import Observer
from beacon_router.service.outcome import RunEnd, failure_of, judge
from beacon_router.service.region_runs import RegionRuns
from beacon_router.service.timers import Timer, Timers
from beacon_router.service.waiters import wake_all

log = structlog.get_logger(__name__)

_COMPLETED: Final = Outcome.COMPLETED
_ANSWERED: Final = InferenceState.COMPLETED
"""Asking an enum for a member costs as much as a call, and these are asked for at the end of every run."""


@dataclass(frozen=True, slots=True)
class RunRules:
    retries: RetryPolicy
    limits: RunLimits
    reader_timeout_s: float = 30.0


class Engine:
    """The one owner of the scheduler: facts are told to it here, and its decisions become runs here."""

    def __init__(
        self,
        scheduler: Scheduler,
        rules: RunRules,
        *,
        held: Held,
        breakers: Breakers,
        timers: Timers,
        clock: Clock,
        observer: Observer,
    ) -> None:
        self._scheduler = scheduler
        self._rules = rules
        self._held = held
        self._breakers = breakers
        self._timers = timers
        self._clock = clock
        self._observer = observer
        self._regions: dict[str, RegionRuns] = {}
        self._backing_off: dict[RequestId, Inference] = {}
        self._loading: set[tuple[str, str]] = set()
        self._wakeup: Timer | None = None
        self._wakeup_at: float | None = None
        self._sweep: Timer | None = None
        self._after_pump: list[Callable[[], None]] = []
        self.retrying = True
        """Off while the router stops: what fails then is answered, not tried again."""

    def own(self, regions: Iterable[RegionRuns]) -> None:
        self._regions = {region.name: region for region in regions}

    def after_each_pump(self, call: Callable[[], None]) -> None:
        self._after_pump.append(call)

    @property
    def backing_off(self) -> int:
        return len(self._backing_off)

    def waiting(self) -> int:
        """All that is accepted and neither runs nor is over."""
        return self._scheduler.waiting() + len(self._backing_off)

    def enqueue(self, inference: Inference) -> None:
        now = self._clock.now()
        self._held.add(inference, now)
        self._scheduler.submit(now, inference.request())
        self.pump()

    def to_front(self, inference: Inference) -> None:
        inference.front = True
        self._scheduler.to_front(self._clock.now(), inference.id)
        self.pump()

    def withdraw(self, inference: Inference, state: InferenceState, why: BackendError) -> None:
        """End it wherever it is: in a queue, in backoff, or running. A running one has left its slot then."""
        run = inference.run
        if run is not None:
            inference.run = None
            self._regions[run.start.region].stop(run, cancelled())
        elif inference.id in self._backing_off:
            self._leave_backoff(inference)
        else:
            self._scheduler.cancel(self._clock.now(), inference.id)
        self._end(inference, state, why)

    def pump(self) -> None:
        """Carry out all that can happen now."""
        now = self._clock.now()
        for decision in self._scheduler.next(now):
            match decision:
                case Start():
                    self._start(decision, now)
                case Expired():
                    self._expire(decision.id)
                case _:
                    assert_never(decision)
        self._plan_wakeup()
        for call in self._after_pump:
            call()

    def run_ended(self, run: Run) -> None:
        """A run is over, however that came about: its slot is free from here on."""
        now = self._clock.now()
        if run.limit is not None:
            run.limit.cancel()
        if run.reader is not None:
            self._reader_waits(run, False)
        end = judge(run, now)
        self._learn(run, end, now)
        self._observer.run_ended(run, end)
        if run.inference.run is run:
            self._conclude(run, end, now)
            self.pump()

    def _start(self, start: Start, now: float) -> None:
        inference = self._held.get(start.id)
        if inference is None:
            raise RuntimeError(f"the scheduler started {start.id}, which nobody asked for")
        run = Run(
            inference, start, len(inference.attempts) + 1, now, self._is_cold(start, inference.ask.model)
        )
        ask = inference.ask
        limit_s = self._rules.limits.seconds(ask.model, cold=run.cold, timeout_s=ask.timeout_s)
        run.limit = self._timers.at(now + limit_s, partial(self._overrun, run, limit_s))
        if ask.sink is not None:
            ask.sink.on_hold(partial(self._reader_waits, run))
        inference.started(run)
        self._regions[start.region].start(run)
        self._observer.started(run)

    def _overrun(self, run: Run, limit_s: float) -> None:
        sink = run.inference.ask.sink
        if sink is not None and sink.held_back:
            why = client_too_slow(limit_s)
        else:
            why = self._rules.limits.exceeded(limit_s, cold=run.cold)
        self._regions[run.start.region].stop(run, why)

    def _reader_waits(self, run: Run, holds: bool) -> None:
        """The client holds its run back, or has read on: who has stopped reading does not keep a slot."""
        if run.reader is not None:
            run.reader.cancel()
        after_s = self._rules.reader_timeout_s
        run.reader = self._timers.after(after_s, partial(self._abandon, run)) if holds else None

    def _abandon(self, run: Run) -> None:
        why = client_stopped_reading(self._rules.reader_timeout_s)
        self._regions[run.start.region].stop(run, why)

    def _is_cold(self, start: Start, model: str) -> bool:
        """Until a first run has come to its end there, whoever starts meets the same load."""
        place = (start.backend, model)
        if start.needs_load:
            self._loading.add(place)
        return place in self._loading

    def _expire(self, request: RequestId) -> None:
        """Its `start_by` passed: with an attempt behind it, that attempt's failure is the answer."""
        inference = self._held.get(request)
        if inference is not None:
            self._end(inference, InferenceState.FAILED, inference.last_error or start_by_passed())

    def _learn(self, run: Run, end: RunEnd, now: float) -> None:
        """What the scheduler and the breaker should know of a run that ended."""
        backend, model = run.start.backend, run.inference.ask.model
        self._scheduler.finished(
            now, run.start.id, end.outcome, load_s=end.learned_load_s, run_s=end.learned_run_s
        )
        if end.outcome is _COMPLETED:
            self._breakers.succeeded(backend)
            if run.cold:
                self._loading.discard((backend, model))
                self._scheduler.model_loaded(now, backend, model)
            return
        if end.error is not None and end.outcome is Outcome.FAILED:
            self._breakers.failed(backend, end.error)
        if run.cold or (end.error is not None and end.error.loses_model):
            # Nobody saw it loaded, so the next run gets the time to load it.
            self._scheduler.model_lost(now, backend, model)

    def _conclude(self, run: Run, end: RunEnd, now: float) -> None:
        inference = run.inference
        inference.ran(end.attempt(run), now)
        if run.answer is not None:
            inference.output, inference.document = run.answer.output, run.answer.document
            self._end(inference, _ANSWERED, None)
            return
        error = inference.last_error = end.error or stopped_running()
        due = self._next_try(inference, error, now)
        _log_failure(run, error, None if due is None else due - now)
        if due is None:
            self._end(inference, InferenceState.FAILED, error)
        else:
            self._back_off(inference, due, run.start.region)

    def _next_try(self, inference: Inference, error: BackendError, now: float) -> float | None:
        if not error.retryable or not self.retrying or inference.stream_begun:
            return None
        return self._rules.retries.next_try(
            now, made=len(inference.attempts), start_by=inference.ask.start_by
        )

    def _back_off(self, inference: Inference, due: float, failed_in: str) -> None:
        inference.state = InferenceState.BACKOFF
        inference.retry_at = due
        inference.retry = self._timers.at(due, partial(self._retry, inference, failed_in))
        self._backing_off[inference.id] = inference

    def _retry(self, inference: Inference, failed_in: str) -> None:
        """The backoff is over: any region may take it, or only its own when it is pinned."""
        self._leave_backoff(inference)
        inference.state = InferenceState.QUEUED
        self._scheduler.retry(self._clock.now(), inference.request(), failed_in)
        self.pump()

    def _leave_backoff(self, inference: Inference) -> None:
        del self._backing_off[inference.id]
        if inference.retry is not None:
            inference.retry.cancel()
        inference.retry = inference.retry_at = None

    def _end(self, inference: Inference, state: InferenceState, why: BackendError | None) -> None:
        now = self._clock.now()
        inference.end(state, None if why is None else failure_of(why), now)
        self._held.finish(inference)
        self._plan_sweep()
        self._observer.ended(inference)
        wake_all(inference)

    def _plan_wakeup(self) -> None:
        moment = self._scheduler.next_wakeup()
        if moment == self._wakeup_at:
            return
        if self._wakeup is not None:
            self._wakeup.cancel()
        self._wakeup_at = moment
        self._wakeup = None if moment is None else self._timers.at(moment, self._woken)

    def _woken(self) -> None:
        self._wakeup = self._wakeup_at = None
        self.pump()

    def _plan_sweep(self) -> None:
        if self._sweep is None and (moment := self._held.next_expiry()) is not None:
            self._sweep = self._timers.at(moment, self._swept)

    def _swept(self) -> None:
        self._sweep = None
        self._held.sweep(self._clock.now())
        self._plan_sweep()


def _log_failure(run: Run, error: BackendError, next_try_s: float | None) -> None:
    # The context is that of whoever woke the scheduler, which may be another request.
    structlog.contextvars.clear_contextvars()
    log.warning(
        "attempt_failed",
        inference=run.inference.id,
        backend=run.start.backend,
        number=run.number,
        code=error.code,
        reason=error.message,
        next_try_s=next_try_s,
    )
