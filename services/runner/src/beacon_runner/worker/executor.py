"""Runs single executions through the router."""

import asyncio
from collections.abc import Callable, Container, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self

import structlog

from beacon_config import BeaconConfig
from beacon_contracts.capabilities import Capability
from beacon_contracts.ids import USER, encode_execution_id, encode_id, encode_job_id
from beacon_contracts.inference import Failover, InferenceRequest, StepMeta
from beacon_lifecycle import TaskSet
from beacon_runner.domain.configuration import is_served, model_removed
from beacon_runner.domain.execution.plan import PendingExecution
from beacon_runner.domain.execution.stage_result import ClaimedJob, PlannedExecution
from beacon_runner.domain.files.file_references import files_in
from beacon_runner.domain.inputs.chat import execution_needs
from beacon_runner.ports.router import InferencePort, OnState, RouterBusy, RouterRefused, RouterUnreachable
from beacon_runner.worker.run import NotAccepted, Outcome, worker_error

log = structlog.get_logger(__name__)

STALE_FENCE = "stale_fence"  # the router's problem code
UNREACHABLE = "no router answers"

UNKNOWN_TO_ROUTER = ("unknown_model", "unknown_region")  # the router's problem codes
UNKNOWN_RETRY_S = 2.0

Done = Callable[[Outcome], None]


def _always(*_: object) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ExecutionRules:
    """The configuration that executions depend on."""

    timeout_s: float
    chat_models: frozenset[str] = frozenset()
    served: Callable[[str, str, Failover, AbstractSet[Capability]], bool] = _always
    """Whether a backend is configured for a model and a region, with the capabilities."""

    @classmethod
    def of(cls, config: BeaconConfig) -> Self:
        return cls(
            config.runner.execution_timeout_s, frozenset(config.chat_models), partial(is_served, config)
        )


class Handle(Protocol):
    """An execution in flight; after `cancel`, its outcome is not reported."""

    def cancel(self) -> object: ...


class Executor(Protocol):
    @property
    def failed(self) -> asyncio.Event:
        """Set when an execution was lost by a programming error: its job would wait forever."""
        ...

    def start(
        self, job: ClaimedJob, pending: PendingExecution, done: Done, on_state: OnState
    ) -> Handle | None:
        """Calls `done` once, now or later, on the event loop; None if it was called already.

        Before, it calls `on_state` when a router has the execution, and when it starts or waits again.
        """
        ...

    async def close(self) -> None: ...


class RouterExecutor:
    """One task per execution. A cancelled handle leaves the run at the router."""

    def __init__(self, router: InferencePort, rules: Callable[[], ExecutionRules]) -> None:
        self._router = router
        self._rules = rules
        self._tasks = TaskSet("executions")

    @property
    def failed(self) -> asyncio.Event:
        return self._tasks.failed

    def start(
        self, job: ClaimedJob, pending: PendingExecution, done: Done, on_state: OnState
    ) -> asyncio.Task[None] | None:
        rules, execution = self._rules(), pending.execution
        needs = needs_of(execution, rules.chat_models)
        if not rules.served(execution.model, execution.region, execution.failover, needs):
            done(model_removed(execution.model, execution.region, execution.item))
            return None
        request = request_of(job, pending, rules.timeout_s, needs)
        run = self._run(request, done, on_state, again=job.may_be_running)
        return self._tasks.spawn(request.request_id, run)

    async def close(self) -> None:
        await self._tasks.close()

    async def _run(self, request: InferenceRequest, done: Done, on_state: OnState, *, again: bool) -> None:
        outcome: Outcome
        try:
            outcome = await self._router.infer(request, again=again, on_state=on_state)
        except RouterBusy as busy:
            outcome = NotAccepted(busy.retry_after_s, busy.reason)
        except RouterUnreachable as unreachable:
            # Users see one constant reason: router and cause can differ at each attempt.
            log.info("router_unreachable", execution=request.request_id, reason=unreachable.reason)
            outcome = NotAccepted(None, UNREACHABLE)
        except RouterRefused as refused:
            outcome = refused.failure
            if refused.problem.code in UNKNOWN_TO_ROUTER:
                # The worker has checked it: the router has not applied the newest configuration yet, or has
                # applied a newer one than this process.
                outcome = NotAccepted(UNKNOWN_RETRY_S, "the routers apply a new configuration")
            if refused.problem.code == STALE_FENCE:
                # This worker has lost the job: its next record is refused, and nothing more should start.
                outcome = NotAccepted(None, refused.failure.message)
        except Exception as error:
            log.exception("execution_failed_unexpectedly", execution=request.request_id)
            outcome = worker_error(error)
        done(outcome)


def needs_of(execution: PlannedExecution, chat_models: Container[str]) -> AbstractSet[Capability]:
    """What it asks of a backend."""
    prompt_only = not execution.params and execution.input.keys() == {"prompt"}
    if prompt_only or execution.model not in chat_models:
        return frozenset()
    return execution_needs(execution.input, execution.params).keys()


def request_of(
    job: ClaimedJob, pending: PendingExecution, timeout_s: float, needs: Iterable[Capability]
) -> InferenceRequest:
    execution = pending.execution
    return InferenceRequest(
        request_id=encode_execution_id(job.id, job.stage, execution.ordinal),
        model=execution.model,
        region=execution.region,
        input=dict(execution.input),
        params=dict(execution.params),
        context=dict(job.context),
        files=[job.files[text] for text in files_in(execution.input).values()] if job.files else [],
        tier=job.tier,
        user_id=encode_id(USER, job.user),
        weight=job.weight,
        following=pending.following,
        failover=execution.failover,
        fence=job.fence,
        timeout_s=timeout_s,
        front=job.front,
        remote=pending.remote,
        needs=list(needs),
        meta=StepMeta(job_id=encode_job_id(job.id), step_index=job.stage, attempt=pending.attempt),
    )
