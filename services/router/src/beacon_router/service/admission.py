"""Who is let in: everything that can be said before an inference is queued."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from beacon_router.scheduling import Health, Scheduler, Topology
from beacon_router.service.breakers import Breakers
from beacon_router.service.errors import (
    BackendsDownError,
    MemoryFullError,
    NoBackendError,
    QueueFullError,
    StartByPassedError,
)
from beacon_router.service.inference import Ask
from beacon_router.service.inference_store import Held

# A refused caller comes back when about this share of the queue has been served.
_DRAIN_SHARE = 0.1
_SHORTEST_S, _LONGEST_S = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    queue_size: int


class Admission:
    def __init__(
        self,
        rules: AdmissionRules,
        topology: Topology,
        *,
        scheduler: Scheduler,
        breakers: Breakers,
        held: Held,
        waiting: Callable[[], int],
    ) -> None:
        self._rules = rules
        self._scheduler = scheduler
        self._breakers = breakers
        self._held = held
        self._waiting = waiting
        self._serving: dict[tuple[str, str | None], tuple[str, ...]] = {}
        for backend in topology.backends:
            for model in backend.models:
                for place in (backend.region, None):
                    self._serving[model, place] = (*self._serving.get((model, place), ()), backend.name)

    def check(self, now: float, ask: Ask, size: int) -> None:
        """Raises the reason why it cannot be queued now."""
        if ask.start_by is not None and ask.start_by <= now:
            raise StartByPassedError(f"{ask.id} was to start {now - ask.start_by:.1f} s ago")
        self._check_backends(ask)
        if self._waiting() >= self._rules.queue_size:
            raise QueueFullError(
                f"{self._rules.queue_size} inferences wait already, as many as may", self._drain_s(now, ask)
            )
        if not self._held.has_room(size):
            raise MemoryFullError("as many bytes of input are held as may be", self._drain_s(now, ask))

    def _check_backends(self, ask: Ask) -> None:
        place = ask.region if ask.pinned else None
        serving = self._serving.get((ask.model, place), ())
        if not serving:
            raise NoBackendError(f"no backend in {ask.region} serves {ask.model}", _LONGEST_S)
        if self._breakers.all_closed:
            return
        if all(self._breakers.health(name) is Health.OPEN for name in serving):
            wait_s = min(self._breakers.opens_in(name) for name in serving)
            why = "failed too often, asked to be left alone, or did not answer health checks"
            raise BackendsDownError(f"{', '.join(serving)} {why}", _bounded(wait_s))

    def _drain_s(self, now: float, ask: Ask) -> float:
        eta = self._scheduler.eta_of_new(now, ask.model, ask.region, ask.tier.rank)
        return _bounded(math.inf if eta is None else eta.p50_s * _DRAIN_SHARE)


def _bounded(seconds: float) -> float:
    if not math.isfinite(seconds):
        return _LONGEST_S
    return min(_LONGEST_S, max(_SHORTEST_S, seconds))
