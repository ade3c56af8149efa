"""Runs single executions: through the router, or whatever else can say how one ended."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from beacon_contracts.ids import USER, encode_execution_id, encode_id, encode_job_id
from beacon_contracts.inference import InferenceRequest, StepMeta
from beacon_lifecycle import TaskSet
from beacon_runner.domain.plan import Due
from beacon_runner.domain.stage_result import ClaimedJob
from beacon_runner.ports.router import InferencePort, RouterBusy, RouterRefused, RouterUnreachable
from beacon_runner.worker.outcomes import NotTaken, Outcome, worker_error

log = structlog.get_logger(__name__)

STALE_FENCE = "stale_fence"  # as the router says it
UNREACHABLE = "no router answers"


class Handle(Protocol):
    """What can be given up; nothing is told about it afterwards."""

    def cancel(self) -> object: ...


class Executor(Protocol):
    @property
    def failed(self) -> asyncio.Event:
        """Set when an execution was lost by a mistake in the program: its job would wait forever."""
        ...

    def start(self, job: ClaimedJob, started: Due, done: Callable[[Outcome], None]) -> Handle | None:
        """Call `done` once, now or later, on the event loop; None when it has been called already."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds of the pause after the router could not take an execution."""

    unreachable_s: float = 5.0
    shortest_s: float = 0.5
    longest_s: float = 60.0

    def bounded(self, delay_s: float) -> float:
        return min(max(delay_s, self.shortest_s), self.longest_s)


class RouterExecutor:
    """One task an execution. Giving up a handle leaves the run at the router, for whoever joins it next."""

    def __init__(self, router: InferencePort, *, timeout_s: float, patience: Patience | None = None) -> None:
        self._router = router
        self._timeout_s = timeout_s
        self._patience = patience or Patience()
        self._tasks = TaskSet("executions")

    @property
    def failed(self) -> asyncio.Event:
        return self._tasks.failed

    def start(self, job: ClaimedJob, started: Due, done: Callable[[Outcome], None]) -> asyncio.Task[None]:
        request = request_of(job, started, self._timeout_s)
        return self._tasks.spawn(request.request_id, self._run(request, done, again=job.may_be_running))

    async def close(self) -> None:
        await self._tasks.close()

    async def _run(self, request: InferenceRequest, done: Callable[[Outcome], None], *, again: bool) -> None:
        done(await self._outcome(request, again=again))

    async def _outcome(self, request: InferenceRequest, *, again: bool) -> Outcome:
        try:
            return await self._router.infer(request, again=again)
        except RouterBusy as busy:
            return NotTaken(self._patience.bounded(busy.retry_after_s), busy.reason)
        except RouterUnreachable as away:
            # Which of them it was, and how, changes from one try to the next: that is no news to users.
            log.info("router_unreachable", execution=request.request_id, reason=away.reason)
            return NotTaken(self._patience.bounded(self._patience.unreachable_s), UNREACHABLE)
        except RouterRefused as refused:
            if refused.problem.code == STALE_FENCE:
                # Our lease is over: the next record is refused, and until then nothing more is to be started.
                return NotTaken(self._patience.bounded(self._patience.unreachable_s), refused.failure.message)
            return refused.failure
        except Exception as error:
            log.exception("execution_broke", execution=request.request_id)
            return worker_error(error)


def request_of(job: ClaimedJob, started: Due, timeout_s: float) -> InferenceRequest:
    execution = started.execution
    return InferenceRequest(
        request_id=encode_execution_id(job.id, job.stage, execution.ordinal),
        model=execution.model,
        region=execution.region,
        input=dict(execution.input),
        params=dict(execution.params),
        context=dict(job.context),
        tier=job.tier,
        user_id=encode_id(USER, job.user),
        failover=execution.failover,
        fence=job.fence,
        timeout_s=timeout_s,
        front=job.front,
        meta=StepMeta(job_id=encode_job_id(job.id), step_index=job.stage, attempt=started.attempt),
    )
