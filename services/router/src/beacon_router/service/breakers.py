"""Keeps a breaker per backend, joins it with the health checks, and tells the scheduler what follows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from beacon_lifecycle import Clock
from beacon_router.backends import BackendError
from beacon_router.scheduling import Health, Scheduler
from beacon_router.service.breaker import Breaker
from beacon_router.service.timers import Timers

log = structlog.get_logger(__name__)


_COVERED_BY_BACKOFF_S = 2.0


@dataclass(frozen=True, slots=True)
class BreakerRules:
    failures: int
    open_s: float
    longest_rest_s: float = 300.0


@dataclass(slots=True)
class _Watched:
    breaker: Breaker
    down: bool = False
    """What the last health check found."""
    told: Health = Health.CLOSED
    probe_at: float | None = None
    rests_until: float | None = None
    """It has asked to be left alone, which says nothing about what others can do."""

    @property
    def health(self) -> Health:
        return Health.OPEN if self.down or self.rests_until is not None else self.breaker.health

    @property
    def back_at(self) -> float | None:
        """When it gets work again, as far as that is known."""
        return max((at for at in (self.breaker.retry_at, self.rests_until) if at is not None), default=None)


class Breakers:
    """Facts about attempts and checks come in; the scheduler hears of every change."""

    def __init__(
        self,
        backends: Iterable[str],
        rules: BreakerRules,
        *,
        scheduler: Scheduler,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self._watched = {
            name: _Watched(Breaker(failures=rules.failures, open_s=rules.open_s)) for name in backends
        }
        self._longest_rest_s = rules.longest_rest_s
        self._scheduler = scheduler
        self._clock = clock
        self._timers = timers
        self._not_closed: set[str] = set()
        self._changed: Callable[[], None] = lambda: None

    def on_change(self, call: Callable[[], None]) -> None:
        """Called after changes that no run caused: those are followed by a look at the queues anyway."""
        self._changed = call

    def succeeded(self, backend: str) -> None:
        self._watched[backend].breaker.succeeded()
        self._tell(backend)

    def failed(self, backend: str, error: BackendError) -> None:
        """An attempt failed; a refusal (4xx) is an answer and never counts."""
        watched = self._watched[backend]
        if error.blame:
            watched.breaker.failed(self._clock.now())
            self._plan_probe(backend, watched)
        elif error.status is not None:
            watched.breaker.answered()
        if error.retryable and error.retry_after_s is not None:
            self._rest(backend, watched, error.retry_after_s)
        self._tell(backend)

    def checked(self, backend: str, *, up: bool) -> None:
        """A health check ended. One that came back has lost its models and deserves a probe at once."""
        watched = self._watched[backend]
        if watched.down and up:
            self._scheduler.model_lost(self._clock.now(), backend)
            watched.breaker.probe_now()
        watched.down = not up
        if self._tell(backend):
            self._changed()

    @property
    def all_closed(self) -> bool:
        return not self._not_closed

    def health(self, backend: str) -> Health:
        return self._watched[backend].health

    def describe(self, backend: str) -> dict[str, object]:
        """How a status page shows it."""
        watched = self._watched[backend]
        retry_at = watched.back_at
        return {
            "state": watched.health.value,
            "failures_in_a_row": watched.breaker.failures,
            "health_check": "down" if watched.down else "up",
            "probe_in_s": None if retry_at is None else round(max(0.0, retry_at - self._clock.now()), 3),
        }

    def opens_in(self, backend: str) -> float:
        """Seconds until an open one may take work again, as far as that is known."""
        retry_at = self._watched[backend].back_at
        return 0.0 if retry_at is None else max(0.0, retry_at - self._clock.now())

    def _tell(self, backend: str) -> bool:
        watched = self._watched[backend]
        health = watched.health
        if health is watched.told:
            return False
        log.warning("backend_health", backend=backend, before=watched.told.value, now=health.value)
        watched.told = health
        if health is Health.CLOSED:
            self._not_closed.discard(backend)
        else:
            self._not_closed.add(backend)
        self._scheduler.set_health(self._clock.now(), backend, health)
        return True

    def _rest(self, backend: str, watched: _Watched, asked_s: float) -> None:
        """Leave it alone for as long as it asked, within bounds; what failed there may run elsewhere."""
        until = self._clock.now() + min(asked_s, self._longest_rest_s)
        if asked_s > _COVERED_BY_BACKOFF_S and until > (watched.rests_until or 0.0):
            watched.rests_until = until
            self._timers.at(until, lambda: self._rested(backend))

    def _rested(self, backend: str) -> None:
        watched = self._watched[backend]
        if watched.rests_until is None or watched.rests_until > self._clock.now():
            return  # it has asked again since
        watched.rests_until = None
        watched.breaker.probe_next()
        if self._tell(backend):
            self._changed()

    def _plan_probe(self, backend: str, watched: _Watched) -> None:
        moment = watched.breaker.retry_at
        if moment is not None and moment != watched.probe_at:
            watched.probe_at = moment
            self._timers.at(moment, lambda: self._probe(backend))

    def _probe(self, backend: str) -> None:
        self._watched[backend].breaker.probe_due(self._clock.now())
        if self._tell(backend):
            self._changed()
