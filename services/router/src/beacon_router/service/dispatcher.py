"""The router's front desk: takes inferences in, joins repeated ones, cancels, waits, and closes in order."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from beacon_contracts.inference import InferenceState
from beacon_lifecycle import Clock
from beacon_router.scheduling import RequestId
from beacon_router.service.admission import Admission
from beacon_router.service.cancelled_fences import CancelledFences
from beacon_router.service.errors import (
    MemoryFullError,
    RequestIdReusedError,
    StaleFenceError,
    StoppingError,
    UnknownInferenceError,
)
from beacon_router.service.failures import cancelled, stopped_waiting
from beacon_router.service.inference import Ask, Inference, Payload
from beacon_router.service.inference_store import Held
from beacon_router.service.region_runs import RegionRuns
from beacon_router.service.run_controller import Engine
from beacon_router.service.timers import Timers
from beacon_router.service.waiters import Wait, wait_until_done

# How long a replica usually takes to come back: what refused callers are told while this one stops.
_RESTART_S = 5.0
_ROOM_AGAIN_S = 1.0


def stopping() -> StoppingError:
    return StoppingError("the router is stopping", _RESTART_S)


class Dispatcher:
    def __init__(
        self,
        engine: Engine,
        admission: Admission,
        *,
        held: Held,
        regions: dict[str, RegionRuns],
        timers: Timers,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._admission = admission
        self._held = held
        self._regions = regions
        self._timers = timers
        self._clock = clock
        self._broken = CancelledFences(held.retention_s)
        self.stopping = False

    @contextmanager
    def arriving(self, size: int) -> Iterator[None]:
        """Inside, a body of this size may come in: it counts as held."""
        self.expect(size)
        try:
            yield
        finally:
            self.arrived(size)

    def expect(self, size: int) -> None:
        if not self._held.has_room(size):
            raise MemoryFullError("as many bytes are held as may be", _ROOM_AGAIN_S)
        self._held.arriving_bytes += size

    def arrived(self, size: int) -> None:
        """It is here, or will not come."""
        self._held.arriving_bytes -= size

    def submit(self, ask: Ask, payload: Payload) -> Inference:
        """Queue it, or join the run that the same id has. A DispatchError means that nothing changed."""
        known = self._held.get(ask.id)
        if known is not None and not self._runs_again(known, ask):
            return self._join(known, ask)
        if ask.fence < self._broken.below(ask.id):
            raise StaleFenceError(f"{ask.id} was cancelled, with all that a lease up to {ask.fence} asks for")
        if self.stopping:
            raise stopping()
        now = self._clock.now()
        self._admission.check(now, ask, payload.size)
        inference = Inference(ask, payload, payload.size, ask.fence, now, front=ask.front, waiting_since=now)
        self._engine.enqueue(inference)
        return inference

    def get(self, request: RequestId) -> Inference:
        inference = self._held.get(request)
        if inference is None:
            raise UnknownInferenceError(f"no inference {request} is known here, or its result is gone")
        return inference

    async def wait(self, inference: Inference, seconds: float | None) -> bool:
        """Until it is over or the seconds have passed; true when it is over."""
        return await wait_until_done(inference, seconds, self._timers)

    def when_done(self, inference: Inference, seconds: float | None, told: Callable[[], None]) -> Wait | None:
        """Call `told` at that moment, without a task; None: it is now, and nobody is called."""
        if inference.done or (seconds is not None and seconds <= 0):
            return None
        return Wait(inference, seconds, self._timers, told)

    def cancel(self, request: RequestId, fence: int | None = None) -> Inference:
        """Queued or running, it is over at once; what is over already stays as it is.

        With a fence, what an earlier lease asks for is over even if it comes only after this.
        """
        if fence is not None:
            self._broken.add(request, fence, self._clock.now())
        inference = self.get(request)
        if fence is not None and fence < inference.fence:
            raise StaleFenceError(
                f"fence {fence} is behind {inference.fence}, which has taken {request} over"
            )
        if not inference.done:
            self._engine.withdraw(inference, InferenceState.CANCELLED, cancelled())
            self._engine.pump()
        return inference

    async def drain(self, grace_s: float) -> None:
        """Refuse new work, answer those who wait, let what runs finish within the grace. Idempotent."""
        self.stopping = True
        self._engine.retrying = False
        for inference in self._held.waiting():
            self._engine.withdraw(inference, InferenceState.FAILED, stopped_waiting())
        moment = self._clock.now() + grace_s
        for region in self._regions.values():
            await region.drain(max(0.0, moment - self._clock.now()))
        for region in self._regions.values():
            region.close()

    def _runs_again(self, known: Inference, ask: Ask) -> bool:
        """It failed or was cancelled, and now a later lease asks for it; or it never ran at all."""
        if not known.done or known.state is InferenceState.COMPLETED:
            return False
        never_ran = known.state is InferenceState.FAILED and not known.attempts
        return ask.fence > known.fence or (never_ran and ask.fence == known.fence)

    def _join(self, known: Inference, ask: Ask) -> Inference:
        if ask.fence < known.fence and known.state is not InferenceState.COMPLETED:
            raise StaleFenceError(f"fence {ask.fence} is behind {known.fence}, which has taken {ask.id} over")
        if (ask.model, ask.region) != (known.ask.model, known.ask.region):
            raise RequestIdReusedError(f"{ask.id} names a run of {known.ask.model} for {known.ask.region}")
        known.fence = max(known.fence, ask.fence)
        if ask.front and not known.front and not known.done:
            self._engine.to_front(known)
        return known
