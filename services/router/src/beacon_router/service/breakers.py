"""One circuit breaker per backend, combined with health checks; the scheduler is informed of each change."""

import asyncio
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import structlog

from beacon_contracts.router_status import STARTING
from beacon_lifecycle import BreakerState, CircuitBreaker, Clock
from beacon_router.backends import BackendError, BackendFault
from beacon_router.backends.errors import means_no_instance
from beacon_router.scheduling import Health, Scheduler
from beacon_router.service.timers import Timers

log = structlog.get_logger(__name__)

# A shorter Retry-After is covered by the backoff between attempts.
MIN_PAUSE_S = 2.0
# Between two probes of a backend that starts.
MAX_START_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class BreakerRules:
    failures: int
    open_s: float
    max_pause_s: float = 300.0
    scale_to_zero: frozenset[str] = frozenset()
    """Backends without an instance while they have no work."""


@dataclass(slots=True)
class _BackendHealth:
    breaker: CircuitBreaker
    down: bool = False
    """Result of the last health check."""
    reported: Health = Health.CLOSED
    probe_at: float | None = None
    paused_until: float | None = None
    """The backend asked for a pause by Retry-After."""
    starts: int = 0
    """Runs in a row that found no instance of it; 0 while it is not known to start."""
    start_probe_at: float | None = None
    """It gets no run until then."""
    failure: BackendFault | None = None
    """Of the last failed run, until one succeeds."""
    check_failure: BackendFault | None = None
    """Of the last failed health check, until one succeeds."""

    @property
    def health(self) -> Health:
        if self.down or self.paused_until is not None or self.start_probe_at is not None:
            return Health.OPEN
        return Health.HALF_OPEN if self.starts else Health(self.breaker.state)

    @property
    def cause(self) -> BackendFault | None:
        """Why it takes no work now, or only a probe."""
        if self.health is Health.CLOSED:
            return None
        if self.starts:
            return _START
        if self.down:
            return self.check_failure or _CHECK_FAILED
        if self.paused_until is not None:
            return _PAUSED
        return self.failure

    @property
    def available_at(self) -> float | None:
        moments = (self.breaker.retry_at, self.paused_until, self.start_probe_at)
        return max((at for at in moments if at is not None), default=None)


_CHECK_FAILED = BackendFault("health_check_failed", "its health checks fail")
_START = BackendFault(STARTING, "it is starting: it has no running instance while it has no work")
_PAUSED = BackendFault("paused", "it asked for a pause (Retry-After)")


class Breakers:
    """`ready` is set after changes that no run caused, so that waiting work is dispatched."""

    def __init__(
        self,
        backends: Iterable[str],
        rules: BreakerRules,
        *,
        scheduler: Scheduler,
        clock: Clock,
        timers: Timers,
        ready: asyncio.Event,
    ) -> None:
        self._rules = rules
        self._backends = {name: self._closed() for name in backends}
        self._max_pause_s = rules.max_pause_s
        self._scale_to_zero = rules.scale_to_zero
        self._scheduler = scheduler
        self._clock = clock
        self._timers = timers
        self._ready = ready
        self.not_closed: set[str] = set()
        """Backends whose health is not closed."""

    def adopt(
        self, backends: Iterable[str], replaced: Collection[str], scale_to_zero: frozenset[str]
    ) -> None:
        """Go on with these backends. New ones, and those that are another server now, begin closed."""
        self._scale_to_zero = scale_to_zero
        known = {name: state for name, state in self._backends.items() if name not in replaced}
        self._backends = {name: known.get(name) or self._closed() for name in backends}
        self.not_closed = {
            name for name, state in self._backends.items() if state.health is not Health.CLOSED
        }
        for name in replaced:
            if name in self._backends:
                self._scheduler.set_health(name, Health.CLOSED)
                self._scheduler.model_lost(name)

    def _closed(self) -> _BackendHealth:
        rules = self._rules
        return _BackendHealth(CircuitBreaker(max_failures=rules.failures, open_s=rules.open_s))

    def succeeded(self, backend: str) -> None:
        state = self._backends[backend]
        if state.failure is None and backend not in self.not_closed:
            return
        state.breaker.record_success()
        state.failure = None
        state.starts = 0
        self._report(backend)

    def has_no_instance(self, backend: str, error: BackendError) -> bool:
        """Whether the run failed because the backend is scaled to zero and has to start."""
        return backend in self._scale_to_zero and means_no_instance(error)

    def is_starting(self, backend: str) -> bool:
        return self._backends[backend].starts > 0

    def failed(self, backend: str, error: BackendError) -> None:
        """A failed attempt; a client error (4xx) is not a failure of the backend."""
        state = self._backends[backend]
        if self.has_no_instance(backend, error):
            self._begin_start(backend, state)
            return
        state.starts = 0
        if error.counts_as_failure:
            state.breaker.record_failure(self._clock.now(), fatal=error.fault is not None)
            count = state.breaker.failures
            state.failure = error.fault or BackendFault(
                error.code, f"{count} failed runs in a row: {error.code}"
            )
            self._plan_probe(backend, state)
        elif error.status is not None and state.breaker.state is BreakerState.HALF_OPEN:
            state.breaker.record_success()  # the probe got a response
        if error.retryable and error.retry_after_s is not None:
            self._pause(backend, state, error.retry_after_s)
        self._report(backend)

    def checked(self, backend: str, *, up: bool, cause: BackendFault | None = None) -> None:
        """The result of a health check. A backend that is up again has lost its models and gets a probe."""
        state = self._backends.get(backend)
        if state is None:  # it was removed during the check
            return
        if state.down and up:
            self._scheduler.model_lost(backend)
            if state.breaker.state is BreakerState.OPEN:
                state.breaker.half_open()
        state.down = not up
        state.check_failure = None if up else cause
        self._report_and_dispatch(backend)

    def health(self, backend: str) -> Health:
        return self._backends[backend].health

    def describe(self, backend: str) -> dict[str, object]:
        """For the status API."""
        state = self._backends[backend]
        available_at = state.available_at
        return {
            "state": STARTING if state.starts else state.health.value,
            "failures_in_a_row": state.breaker.failures,
            "health_check": "down" if state.down else "up",
            "cause": None if state.cause is None else state.cause.message,
            "cause_code": None if state.cause is None else state.cause.code,
            "probe_in_s": None if available_at is None else round(self.retry_in(backend), 3),
        }

    def causes(self, backends: Iterable[str]) -> str:
        """`us-1: its health checks fail; …`, of those that have one."""
        known = ((name, self._backends[name].cause) for name in backends)
        return "; ".join(f"{name}: {cause.message}" for name, cause in known if cause is not None)

    def cause_codes(self) -> dict[str, str]:
        """By backend, for metrics."""
        causes = ((name, self._backends[name].cause) for name in self.not_closed)
        return {name: cause.code for name, cause in causes if cause is not None}

    def retry_in(self, backend: str) -> float:
        """Seconds until an open breaker may take work again, as far as that is known."""
        available_at = self._backends[backend].available_at
        return 0.0 if available_at is None else max(0.0, available_at - self._clock.now())

    def _report(self, backend: str) -> bool:
        """Inform the scheduler; true if the health changed."""
        state = self._backends[backend]
        health = state.health
        if health is state.reported:
            return False
        level = logging.INFO if state.starts else logging.WARNING
        log.log(
            level,
            "backend_health_changed",
            backend=backend,
            before=state.reported.value,
            now=health.value,
            cause=None if state.cause is None else state.cause.message,
        )
        state.reported = health
        if health is Health.CLOSED:
            self.not_closed.discard(backend)
        else:
            self.not_closed.add(backend)
        self._scheduler.set_health(backend, health)
        return True

    def _report_and_dispatch(self, backend: str) -> None:
        if self._report(backend):
            self._ready.set()

    def _pause(self, backend: str, state: _BackendHealth, requested_s: float) -> None:
        """Send nothing there for as long as it asked, within bounds; other backends may take the work."""
        until = self._clock.now() + min(requested_s, self._max_pause_s)
        if requested_s > MIN_PAUSE_S and until > (state.paused_until or 0.0):
            state.paused_until = until
            self._timers.at(until, lambda: self._resume(backend))

    def _resume(self, backend: str) -> None:
        state = self._backends.get(backend)
        if state is None or state.paused_until is None or state.paused_until > self._clock.now():
            return  # the pause was extended
        state.paused_until = None
        if state.breaker.closed:
            state.breaker.half_open()
        self._report_and_dispatch(backend)

    def _begin_start(self, backend: str, state: _BackendHealth) -> None:
        """Its work waits; after a pause that grows, one run shows whether it is there."""
        if state.start_probe_at is not None:
            return  # of several runs that found no instance, the first one counts
        state.starts += 1
        self._scheduler.model_lost(backend)
        probe_at = self._clock.now() + min(2.0 ** (state.starts - 1), MAX_START_PAUSE_S)
        state.start_probe_at = probe_at
        self._timers.at(probe_at, lambda: self._probe_start(backend, probe_at))
        self._report(backend)

    def _probe_start(self, backend: str, planned_at: float) -> None:
        state = self._backends.get(backend)
        if state is not None and state.start_probe_at == planned_at:
            state.start_probe_at = None
            self._report_and_dispatch(backend)

    def _plan_probe(self, backend: str, state: _BackendHealth) -> None:
        moment = state.breaker.retry_at
        if moment is not None and moment != state.probe_at:
            state.probe_at = moment
            self._timers.at(moment, lambda: self._probe(backend))

    def _probe(self, backend: str) -> None:
        if backend in self._backends:
            self._backends[backend].breaker.half_open_if_due(self._clock.now())
            self._report_and_dispatch(backend)
