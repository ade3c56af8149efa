"""Runs single executions through the router."""

from collections.abc import Iterable
from typing import Protocol

import structlog

from beacon_config import LiveConfig
from beacon_contracts.capabilities import Capability
from beacon_contracts.failures import Failure
from beacon_contracts.ids import USER, encode_execution_id, encode_id, encode_job_id
from beacon_contracts.inference import InferenceRequest, StepMeta
from beacon_runner.domain.configuration import is_served, model_removed
from beacon_runner.domain.execution.plan import PendingExecution
from beacon_runner.domain.execution.stage_result import ClaimedJob
from beacon_runner.domain.files.file_references import files_in
from beacon_runner.domain.inputs.chat import execution_needs
from beacon_runner.ports.router import InferencePort, OnState, RouterBusy, RouterRefused, RouterUnreachable
from beacon_runner.worker.run import NotAccepted, Outcome

log = structlog.get_logger(__name__)

STALE_FENCE = "stale_fence"  # the router's problem code
UNREACHABLE = "no router answers"

UNKNOWN_TO_ROUTER = ("unknown_model", "unknown_region")  # the router's problem codes
UNKNOWN_RETRY_S = 2.0


class Executor(Protocol):
    async def run(self, job: ClaimedJob, pending: PendingExecution, on_state: OnState) -> Outcome:
        """Until it has ended, or was not accepted; when cancelled, the run goes on at its router.

        Calls `on_state` when a router has the execution, and when it starts or waits again.
        """
        ...


class RouterExecutor:
    def __init__(self, router: InferencePort, live: LiveConfig) -> None:
        self._router = router
        self._live = live

    async def run(self, job: ClaimedJob, pending: PendingExecution, on_state: OnState) -> Outcome:
        config, execution = self._live.current, pending.execution
        needs = execution_needs(execution.model, execution.input, execution.params, config.chat_models).keys()
        if not is_served(config, execution.model, execution.region, execution.failover, needs):
            return model_removed(execution.model, execution.region, execution.item)
        request = request_of(job, pending, config.runner.execution_timeout_s, needs)
        try:
            return await self._router.infer(request, again=job.may_be_running, on_state=on_state)
        except RouterBusy as busy:
            return NotAccepted(busy.retry_after_s, busy.reason)
        except RouterUnreachable as unreachable:
            # Users see one constant reason: router and cause can differ at each attempt.
            log.info("router_unreachable", execution=request.request_id, reason=unreachable.reason)
            return NotAccepted(None, UNREACHABLE)
        except RouterRefused as refused:
            return _outcome_of(refused)


def _outcome_of(refused: RouterRefused) -> Failure | NotAccepted:
    if refused.problem.code in UNKNOWN_TO_ROUTER:
        # The worker has checked it: the router has not applied the newest configuration yet, or has
        # applied a newer one than this process.
        return NotAccepted(UNKNOWN_RETRY_S, "the routers apply a new configuration")
    if refused.problem.code == STALE_FENCE:
        # This worker has lost the job: its next record is refused, and nothing more should start.
        return NotAccepted(None, refused.failure.message)
    return refused.failure


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
