"""Runs that continue without a connection; without a free slot they wait in the provider's queue."""

from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import StrEnum
from uuid import uuid4

from beacon_gpusim.core.calls import CallOutcome
from beacon_gpusim.core.faults import Fault, FaultKind
from beacon_gpusim.core.outputs import Prompt
from beacon_gpusim.engine import CallHandle, SimulationEngine
from beacon_lifecycle import TaskSet

MAX_RUNS = 10_000  # the oldest are forgotten first


class RunPhase(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(slots=True, eq=False)
class ProviderRun:
    id: str
    api: str
    prompt: Prompt
    handle: CallHandle | None = None
    """None while it waits."""
    cancelled: bool = False

    @property
    def fault(self) -> Fault | None:
        return None if self.handle is None else self.handle.call.fault

    @property
    def empty(self) -> bool:
        return self.fault is not None and self.fault.kind is FaultKind.EMPTY

    def phase(self, now: float) -> RunPhase:
        if self.cancelled:
            return RunPhase.CANCELLED
        call = None if self.handle is None else self.handle.call
        if call is None:
            return RunPhase.QUEUED
        match call.outcome:
            case None:
                started = call.started is not None and call.started <= now
                return RunPhase.RUNNING if started else RunPhase.QUEUED
            case CallOutcome.COMPLETED:
                return RunPhase.COMPLETED
            case CallOutcome.ABORTED:
                return RunPhase.CANCELLED
            case _:
                return RunPhase.FAILED

    def share_done(self, now: float) -> float:
        """From 0 to 1."""
        return 0.0 if self.handle is None else self.handle.call.share_done(now)


class ProviderRuns:
    def __init__(self, engine: SimulationEngine) -> None:
        self._engine = engine
        self._tasks = TaskSet("gpusim.remote_runs")
        self._runs: OrderedDict[str, ProviderRun] = OrderedDict()
        self._waiting: deque[ProviderRun] = deque()

    @property
    def engine(self) -> SimulationEngine:
        return self._engine

    def submit(self, api: str, prompt: Prompt, run_id: str | None = None) -> ProviderRun:
        """Accept a run; its id is its request id in the ledger."""
        run = ProviderRun(run_id or uuid4().hex, api, prompt)
        self._runs[run.id] = run
        if len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)
        self._waiting.append(run)
        self._start_waiting()
        return run

    def get(self, run_id: str) -> ProviderRun | None:
        return self._runs.get(run_id)

    def all(self) -> list[ProviderRun]:
        return list(self._runs.values())

    def drop(self, run: ProviderRun) -> None:
        """Remove a run that was not accepted."""
        del self._runs[run.id]

    def cancel(self, run: ProviderRun) -> bool:
        """Cancel a run; false if it has ended already."""
        if run.handle is None:
            run.cancelled = True
            self._waiting.remove(run)
            return True
        if run.handle.call.outcome is not None:
            return False
        self._engine.abort(run.handle)
        return True

    def forget(self) -> None:
        """Remove all runs, as a restart of the provider would."""
        self._runs.clear()
        self._waiting.clear()

    async def close(self) -> None:
        await self._tasks.close()

    def _start_waiting(self) -> None:
        gpu = self._engine.gpu
        while self._waiting and len(gpu.held) < gpu.slots:
            run = self._waiting.popleft()
            run.handle = self._engine.submit(run.id, run.api, run.prompt.model)
            if run.handle.done is not None:
                self._tasks.spawn(f"run {run.id}", self._wait_and_start_next(run.handle))

    async def _wait_and_start_next(self, handle: CallHandle) -> None:
        await handle.wait_done()
        self._start_waiting()
