"""Checks before an inference is queued."""

import math
from collections.abc import Callable

from beacon_router.scheduling import Health, Scheduler, Topology
from beacon_router.service.breakers import Breakers
from beacon_router.service.errors import (
    BackendsDownError,
    MemoryFullError,
    NoBackendError,
    QueueFullError,
    StartByPassedError,
)
from beacon_router.service.inference import InferenceSpec
from beacon_router.service.inference_store import InferenceStore

# Retry-After of a full queue: the time in which about this share of it is served.
DRAIN_SHARE = 0.1
MIN_RETRY_AFTER_S, MAX_RETRY_AFTER_S = 1.0, 60.0


class InferenceAdmission:
    def __init__(
        self,
        queue_size: int,
        topology: Topology,
        *,
        scheduler: Scheduler,
        breakers: Breakers,
        store: InferenceStore,
        waiting: Callable[[], int],
    ) -> None:
        self._queue_size = queue_size
        self._scheduler = scheduler
        self._breakers = breakers
        self._store = store
        self._waiting = waiting
        self._capabilities = {backend.name: backend.capabilities for backend in topology.backends}
        self._backends_of: dict[tuple[str, str | None], tuple[str, ...]] = {}
        for backend in topology.backends:
            for model in backend.models:
                for key in ((model, backend.region), (model, None)):
                    self._backends_of[key] = (*self._backends_of.get(key, ()), backend.name)

    def check(self, now: float, spec: InferenceSpec, payload_bytes: int) -> None:
        """Raises a DispatchError if it cannot be queued now."""
        if spec.start_by is not None and spec.start_by <= now:
            raise StartByPassedError(f"start_by of {spec.id} passed {now - spec.start_by:.1f} s ago")
        backends = self._backends_of.get((spec.model, spec.region if spec.pinned else None), ())
        if spec.needs:
            backends = tuple(name for name in backends if spec.needs <= self._capabilities[name])
        if not backends:
            reason = f"no backend in {spec.region} serves {spec.model}"
            needs = f" with {', '.join(sorted(spec.needs))}" if spec.needs else ""
            raise NoBackendError(reason + needs, MAX_RETRY_AFTER_S)
        if self._breakers.not_closed:
            self._check_breakers(backends)
        if self._waiting() >= self._queue_size:
            raise QueueFullError(
                f"the queue is full: {self._queue_size} inferences wait", self._drain_s(now, spec)
            )
        if not self._store.has_room(payload_bytes):
            raise MemoryFullError("the memory for inputs is full", self._drain_s(now, spec))

    def _check_breakers(self, backends: tuple[str, ...]) -> None:
        if all(self._breakers.health(name) is Health.OPEN for name in backends) and not any(
            map(self._breakers.is_starting, backends)
        ):
            wait_s = min(self._breakers.retry_in(name) for name in backends)
            raise BackendsDownError(
                f"no backend is available ({self._breakers.causes(backends)})", _bounded(wait_s)
            )

    def _drain_s(self, now: float, spec: InferenceSpec) -> float:
        eta = self._scheduler.eta_of_new(now, spec.model, spec.region, spec.rank, spec.needs)
        return _bounded(math.inf if eta is None else eta.p50_s * DRAIN_SHARE)


def _bounded(seconds: float) -> float:
    if not math.isfinite(seconds):
        return MAX_RETRY_AFTER_S
    return min(MAX_RETRY_AFTER_S, max(MIN_RETRY_AFTER_S, seconds))
