"""What an interactive request uses of a GPU."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import structlog

from beacon_contracts.inference import InferenceState, InferenceView
from beacon_lifecycle import Clock
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.usage import InteractiveUsage, tokens_of
from beacon_runner.domain.users import Principal
from beacon_runner.ports.interactive import InteractiveEvent
from beacon_runner.ports.usage import UsageStore

log = structlog.get_logger(__name__)

_ON_A_GPU = (InferenceState.WARMING, InferenceState.RUNNING)


class RunMeter:
    """Reads the events of a run. One that its client has left is charged from its start until then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_at: float | None = None
        self._newest: InferenceView | None = None

    async def read(self, events: AsyncGenerator[InteractiveEvent]) -> AsyncGenerator[InteractiveEvent]:
        """The same events."""
        async with aclosing(events):
            async for event in events:
                if isinstance(event, InferenceView):
                    self._newest = event
                if self._started_at is None and (isinstance(event, bytes) or event.state in _ON_A_GPU):
                    self._started_at = self._clock.now()
                yield event

    def usage(self, principal: Principal) -> InteractiveUsage | None:
        """None if nothing has run."""
        view = self._newest
        if view is None:
            return None
        failed = view.state is InferenceState.FAILED
        load_s, run_s = view.timing.load_s, view.timing.run_s
        if not view.state.terminal:
            if self._started_at is None:
                return None
            load_s, run_s = 0.0, self._clock.now() - self._started_at
        elif view.backend is None:
            return None
        tokens_in, tokens_out = tokens_of(view.usage)
        return InteractiveUsage(
            principal.user,
            principal.key,
            view.model,
            view.actual_region or view.requested_region,
            view.timing.queued_s,
            0.0 if failed else load_s,
            0.0 if failed else run_s,
            tokens_in,
            tokens_out,
            failed,
        )


async def record_usage(store: UsageStore, used: InteractiveUsage | None) -> None:
    if used is None:
        return
    try:
        await store.add_interactive(used)
    except StoreUnavailableError as error:  # the request has succeeded
        log.warning("usage_not_recorded", model=used.model, run_s=used.run_s, error=str(error))
