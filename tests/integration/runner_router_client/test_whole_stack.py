"""The router client against real router processes."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from beacon_contracts.ids import JobId, encode_execution_id, new_uuid
from beacon_contracts.inference import InferenceRequest, InferenceState
from beacon_runner.ports.router import RouterRefused
from beacon_runner.router_client import RouterClient, RouterTimeouts
from tests.fixtures.stack import RunningStack
from tests.fixtures.waiting import until, within_timeout

pytestmark = pytest.mark.stack


def request(model: str = "llama3.2-1b") -> InferenceRequest:
    name = encode_execution_id(JobId(new_uuid()), 0, 0)
    return InferenceRequest(request_id=name, model=model, region="US", input={"prompt": "hi"}, fence=1)


@pytest.fixture
async def router(stack: RunningStack) -> AsyncIterator[RouterClient]:
    token = stack.credentials.service_token
    # A restart may take long on a busy machine; the default gives up sooner and lets the runner postpone.
    patient = RouterTimeouts(max_tries=20)
    async with RouterClient([stack.credentials.router_url], token, timeouts=patient) as one:
        yield one


async def known(router: RouterClient, request_id: str) -> None:
    await until(lambda: router.find(request_id), "the router knows it")


async def test_the_router_runs_refuses_and_cancels(stack: RunningStack, router: RouterClient) -> None:
    done = await router.infer(request())
    assert (done.state, done.requested_region) == (InferenceState.COMPLETED, "US")
    with pytest.raises(RouterRefused) as refused:
        await router.infer(request(model="gpt-9"))
    assert refused.value.failure.code == "unknown_model"
    held = request(model="sdxl")
    with stack.held("gpusim-us"):
        running = asyncio.ensure_future(router.infer(held))
        await known(router, held.request_id)
        await router.cancel(held.request_id, "US", fence=1)
        assert (await running).state is InferenceState.CANCELLED


async def test_an_inference_survives_a_router_restart(stack: RunningStack, router: RouterClient) -> None:
    held = request(model="sdxl")
    with stack.held("gpusim-us"):
        running = asyncio.ensure_future(router.infer(held))
        await known(router, held.request_id)
        await asyncio.to_thread(stack.kill, "router")
        await asyncio.to_thread(stack.start, "router")
    async with within_timeout("the inference ends"):
        assert (await running).state is InferenceState.COMPLETED
