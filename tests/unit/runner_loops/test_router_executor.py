"""The effect of the router's replies, refusals and timeouts on an execution."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from beacon_config import LiveConfig
from beacon_contracts.capabilities import Capability
from beacon_contracts.failures import Failure
from beacon_contracts.inference import InferenceRequest, InferenceView
from beacon_contracts.problem import Problem
from beacon_runner.domain.execution.plan import pending_executions, stage_plan
from beacon_runner.ports.router import OnState, RouterBusy, RouterRefused, RouterUnreachable
from beacon_runner.worker.executor import RouterExecutor
from beacon_runner.worker.run import NotAccepted, Outcome
from tests.fixtures.waiting import WAIT_TIMEOUT_S
from tests.unit.runner_domain.factories import shipped_config
from tests.unit.runner_loops.test_job_run import DONE, MATRIX, claimed


class ScriptedRouter:
    def __init__(self, answer: Callable[[InferenceRequest], Awaitable[InferenceView]]) -> None:
        self._answer = answer
        self.cancelled: list[str] = []
        self.asked_again: list[bool] = []

    async def infer(
        self,
        request: InferenceRequest,
        *,
        again: bool = False,
        on_state: OnState = lambda _: None,
    ) -> InferenceView:
        self.asked_again.append(again)
        on_state(None)
        return await self._answer(request)

    async def cancel(self, request_id: str, region: str) -> None:
        self.cancelled.append(request_id)


def raising(error: Exception) -> ScriptedRouter:
    async def infer(_: InferenceRequest) -> InferenceView:
        raise error

    return ScriptedRouter(infer)


async def outcome_of(router: ScriptedRouter, model: str = "flux", **changes: Any) -> Outcome:
    executor = RouterExecutor(router, LiveConfig(shipped_config()))
    job = claimed(spec=MATRIX | {"targets": [[model, ["US"]]]}, **changes)
    first = pending_executions(stage_plan(job.spec, 0, {}), ())[0]
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        return await executor.run(job, first, lambda _: None)


async def test_a_result_is_reported() -> None:
    async def infer(_: InferenceRequest) -> InferenceView:
        return DONE

    assert await outcome_of(ScriptedRouter(infer)) is DONE


async def test_an_execution_that_may_run_is_searched_first() -> None:
    async def infer(_: InferenceRequest) -> InferenceView:
        return DONE

    router = ScriptedRouter(infer)
    await outcome_of(router, fence=1)
    await outcome_of(router, fence=2)  # an earlier claim may have started it
    assert router.asked_again == [False, True]


async def test_the_request_of_a_chat_model_has_the_needs_of_its_parameters() -> None:
    sent: list[InferenceRequest] = []

    async def infer(request: InferenceRequest) -> InferenceView:
        sent.append(request)
        return DONE

    executor = RouterExecutor(ScriptedRouter(infer), LiveConfig(shipped_config()))
    spec = MATRIX | {"targets": [["llama3.2-1b", ["ASIA"]]], "params": {"tools": [{}], "n": 2}}
    job = claimed(spec=spec)
    first = pending_executions(stage_plan(job.spec, 0, {}), ())[0]
    await executor.run(job, first, lambda _: None)
    assert [request.needs for request in sent] == [[Capability.TOOLS, Capability.N]]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RouterBusy(7.0, "queue full"), NotAccepted(7.0, "queue full")),
        (RouterBusy(86_400.0, "closed"), NotAccepted(86_400.0, "closed")),
        (RouterUnreachable("refused", tries=7), NotAccepted(None, "no router answers")),
    ],
)
async def test_waiting_is_no_failure(error: Exception, outcome: NotAccepted) -> None:
    assert await outcome_of(raising(error)) == outcome


async def test_a_refusal_is_permanent() -> None:
    problem = Problem(title="Bad input", status=422, code="unknown_file", detail="no such file")
    failure = await outcome_of(raising(RouterRefused(problem)))
    assert isinstance(failure, Failure)
    assert (failure.code, failure.retryable) == ("unknown_file", False)


async def test_a_router_with_an_older_configuration_is_waited_for() -> None:
    problem = Problem(title="Bad input", status=422, code="unknown_model", detail="no such model")
    assert isinstance(await outcome_of(raising(RouterRefused(problem))), NotAccepted)


async def test_an_execution_of_a_removed_model_fails_and_is_not_sent() -> None:
    async def infer(_: InferenceRequest) -> InferenceView:
        raise AssertionError

    failure = await outcome_of(ScriptedRouter(infer), model="removed")
    assert isinstance(failure, Failure)
    assert (failure.code, failure.retryable) == ("model_removed", False)


async def test_a_lost_fence_is_no_failure_of_the_execution() -> None:
    """Another worker has the job, or it was cancelled: the next record shows which."""
    stale = Problem(title="Conflict", status=409, code="stale_fence", detail="fence 1 is behind 2")
    assert isinstance(await outcome_of(raising(RouterRefused(stale))), NotAccepted)


async def test_a_cancelled_wait_leaves_the_run_at_the_router() -> None:
    called = asyncio.Event()

    async def infer(_: InferenceRequest) -> InferenceView:
        called.set()
        return await asyncio.Future()

    router = ScriptedRouter(infer)
    waiting = asyncio.create_task(outcome_of(router))
    await called.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert router.cancelled == []
