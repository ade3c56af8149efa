"""What an interactive request uses of a GPU."""

import structlog

from beacon_contracts.ids import UserId
from beacon_contracts.inference import InferenceState, InferenceView
from beacon_lifecycle import Clock, RunResult
from beacon_runner.domain.accounts.usage import InteractiveUsage, UsageToday, tokens_of
from beacon_runner.domain.accounts.users import Principal
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.ports.interactive import InteractiveEvent
from beacon_runner.ports.usage import UsageStore

log = structlog.get_logger(__name__)

FLUSH_EVERY_S = 1.0
MAX_KEPT_RUNS = 10_000
_ON_A_GPU = (InferenceState.WARMING, InferenceState.RUNNING)


class RunMeter:
    """Notes the events of a run. One that its client has left is charged from its start until then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_at: float | None = None
        self._newest: InferenceView | None = None

    def note(self, event: InteractiveEvent) -> None:
        if isinstance(event, InferenceView):
            self._newest = event
        if self._started_at is None and (isinstance(event, bytes) or event.state in _ON_A_GPU):
            self._started_at = self._clock.now()

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


class UsageRecorder:
    """Writes the usage of requests in batches: a process that is killed loses that of a moment."""

    def __init__(self, store: UsageStore) -> None:
        self._store = store
        self._runs: list[InteractiveUsage] = []

    async def today(self, user: UserId) -> UsageToday:
        """What has been written."""
        return await self._store.today(user)

    def add(self, used: InteractiveUsage | None) -> None:
        if used is not None:
            self._runs.append(used)

    async def flush(self) -> RunResult:
        """On an error the newest runs are kept for the next call."""
        runs, self._runs = self._runs, []
        if runs:
            try:
                await self._store.add_interactive(runs)
            except BaseException:
                self._runs = [*runs, *self._runs][-MAX_KEPT_RUNS:]
                raise
        return RunResult(len(runs))

    async def close(self) -> None:
        try:
            await self.flush()
        except StoreUnavailableError as error:
            log.warning("usage_not_recorded", runs=len(self._runs), error=str(error))
