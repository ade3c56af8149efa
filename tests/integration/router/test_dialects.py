"""The dialects against a real server: requests, responses, error codes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from beacon_contracts.failures import FailureStage
from beacon_contracts.inference import StepMeta
from beacon_router.backends import Backend, BackendClient, BackendError
from beacon_router.service.inference import InferenceSpec
from tests.fixtures.gpusim import Gpusim, gpusim_client, gpusim_process
from tests.fixtures.waiting import until
from tests.integration.router.backend_calls import backend_at, open_client, spec_of

DIALECTS = ("modal", "openai", "execute")


@pytest.fixture(scope="module")
def process() -> Any:
    with gpusim_process(region="EU", slots=4, time_scale=0, proxy_timeout_s=0.2) as running:
        yield running


@pytest.fixture
async def gpu(process: Any) -> AsyncIterator[Gpusim]:
    async with gpusim_client(process) as client:
        await client.reset()
        await client.clear_faults()
        yield client


@pytest.fixture
async def client() -> AsyncIterator[BackendClient]:
    async with open_client() as opened:
        yield opened


@pytest.fixture(params=DIALECTS)
def backend(request: pytest.FixtureRequest, gpu: Gpusim, client: BackendClient) -> Backend:
    return backend_at(request.param, gpu.url, client)


def call(request_id: str = "r-1", *, model: str = "llama3.2-1b", **given: Any) -> InferenceSpec:
    return spec_of(request_id, model, orjson.dumps(given or {"prompt": "Why?"}))


async def test_every_dialect_returns_an_output(backend: Backend, gpu: Gpusim) -> None:
    answer = await backend.run(call("r-7"))

    assert orjson.loads(answer.output)
    (entry,) = await gpu.ledger()
    assert (entry["request_id"], entry["model"], entry["outcome"]) == ("r-7", "llama3.2-1b", "completed")


async def test_an_empty_output_is_an_answer(backend: Backend, gpu: Gpusim) -> None:
    await gpu.add_fault(kind="empty", next=1)

    answer = await backend.run(call())

    assert orjson.loads(answer.output) in ("", {"output": ""})


@pytest.mark.parametrize("dialect", ["modal", "execute"])
async def test_durations_reported_by_the_backend_are_used(
    dialect: str, gpu: Gpusim, client: BackendClient
) -> None:
    answer = await backend_at(dialect, gpu.url, client).run(call())

    assert answer.load_s == 0.0
    assert answer.run_s is not None


async def test_chat_accepts_messages_and_returns_usage(gpu: Gpusim, client: BackendClient) -> None:
    chat = backend_at("openai", gpu.url, client)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why is it so?"}]

    answer = await chat.run(call(messages=messages))

    assert answer.usage is not None
    assert answer.usage["prompt_tokens"] == 4
    assert "Why is it so?" in orjson.loads(answer.output)


async def test_a_step_of_a_pipeline_may_have_its_tools_in_its_input(
    gpu: Gpusim, client: BackendClient
) -> None:
    tools = [{"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}]
    answer = await backend_at("openai", gpu.url, client).run(call(prompt="Why?", tools=tools))

    message = orjson.loads(answer.response or b"{}")["choices"][0]["message"]
    assert [each["function"]["name"] for each in message["tool_calls"]] == ["lookup"]


async def test_chat_without_a_prompt_is_refused_before_sending(gpu: Gpusim, client: BackendClient) -> None:
    with pytest.raises(BackendError) as refused:
        await backend_at("openai", gpu.url, client).run(call(image="cat.png"))

    assert (refused.value.code, refused.value.retryable, refused.value.counts_as_failure) == (
        "unusable_input",
        False,
        False,
    )
    assert await gpu.ledger() == []


async def test_a_step_receives_its_job_its_index_and_its_options(gpu: Gpusim, client: BackendClient) -> None:
    step = spec_of(
        "exe_1.2.0",
        "prompt_enhancer",
        b'{"prompt":"a city"}',
        params=b'{"style":"wide"}',
        context=b'{"earlier":{"text":"x"}}',
        meta=StepMeta(job_id="job_1", step_index=2, attempt=3),
    )

    answer = await backend_at("execute", gpu.url, client).run(step)

    assert "a city" in orjson.loads(answer.output)["enhanced_prompt"]
    assert (await gpu.ledger())[0]["request_id"] == "exe_1.2.0"


async def test_a_long_run_is_followed_through_its_redirects(gpu: Gpusim, client: BackendClient) -> None:
    await gpu.add_fault(kind="slow_run", extra_s=0.7, next=1)

    answer = await backend_at("modal", gpu.url, client).run(call("slow"))

    assert orjson.loads(answer.output)
    assert [entry["outcome"] for entry in await gpu.ledger(request_id="slow")] == ["completed"]


async def test_a_cancelled_call_frees_the_slot(backend: Backend, gpu: Gpusim) -> None:
    await gpu.add_fault(kind="hang", next=1)
    run = asyncio.ensure_future(backend.run(call("hung")))
    await gpu.wait_running(1)

    run.cancel()
    await asyncio.gather(run, return_exceptions=True)

    async def aborted() -> bool:
        return [entry["outcome"] for entry in await gpu.ledger(request_id="hung")] == ["aborted"]

    await until(aborted, "the call is aborted")


FAULTS = [
    # fault of the server; code, stage, worth another try, held against the backend
    ({"kind": "error", "status": 408}, ("backend_timeout", FailureStage.RUN, True, False)),
    ({"kind": "error", "status": 425}, ("backend_too_early", FailureStage.RUN, True, False)),
    ({"kind": "error", "status": 429}, ("backend_busy", FailureStage.RUN, True, False)),
    ({"kind": "error", "status": 502}, ("backend_unavailable", FailureStage.RUN, True, True)),
    ({"kind": "error", "status": 503}, ("backend_unavailable", FailureStage.RUN, True, True)),
    ({"kind": "error", "status": 504}, ("backend_timeout", FailureStage.RUN, True, True)),
    ({"kind": "error", "status": 400}, ("backend_refused", FailureStage.RUN, False, False)),
    ({"kind": "error", "status": 401}, ("backend_unauthorized", FailureStage.TRANSPORT, True, True)),
    ({"kind": "error", "status": 403}, ("request_forbidden", FailureStage.RUN, False, False)),
    ({"kind": "error", "status": 402}, ("backend_unauthorized", FailureStage.TRANSPORT, True, True)),
    ({"kind": "error", "status": 407}, ("backend_unauthorized", FailureStage.TRANSPORT, True, True)),
    ({"kind": "error", "status": 404}, ("backend_refused", FailureStage.RUN, False, False)),
    ({"kind": "error", "status": 422}, ("backend_refused", FailureStage.RUN, False, False)),
    ({"kind": "error", "status": 500}, ("backend_error", FailureStage.RUN, False, True)),
    ({"kind": "error", "status": 501}, ("backend_error", FailureStage.RUN, False, True)),
    ({"kind": "no_body"}, ("bad_payload", FailureStage.RUN, False, True)),
    ({"kind": "bad_json"}, ("bad_payload", FailureStage.RUN, False, True)),
    ({"kind": "wrong_content_type"}, ("bad_payload", FailureStage.RUN, False, True)),
    ({"kind": "reset"}, ("connection_lost", FailureStage.TRANSPORT, True, True)),
    ({"kind": "truncated"}, ("connection_lost", FailureStage.TRANSPORT, True, True)),
]


@pytest.mark.parametrize(("fault", "verdict"), FAULTS)
async def test_failures_have_a_code_and_are_classified(
    fault: dict[str, Any], verdict: tuple[object, ...], backend: Backend, gpu: Gpusim
) -> None:
    await gpu.add_fault(**fault, next=1)

    with pytest.raises(BackendError) as failed:
        await backend.run(call())

    error = failed.value
    assert (error.code, error.stage, error.retryable, error.counts_as_failure) == verdict


async def test_retry_after_of_a_backend_is_returned(backend: Backend, gpu: Gpusim) -> None:
    await gpu.add_fault(kind="error", status=503, retry_after_s=7, next=1)

    with pytest.raises(BackendError) as failed:
        await backend.run(call())

    assert failed.value.retry_after_s == 7


async def test_a_refused_connection_is_unreachable(unused_tcp_port: int, client: BackendClient) -> None:
    unreachable = backend_at("modal", f"http://127.0.0.1:{unused_tcp_port}", client)

    with pytest.raises(BackendError) as failed:
        await unreachable.run(call())

    error = failed.value
    assert (error.code, error.stage, error.retryable) == ("backend_unreachable", FailureStage.TRANSPORT, True)
    assert error.message == "no connection is possible (Connection refused)"


async def test_an_endless_response_is_limited(gpu: Gpusim, client: BackendClient) -> None:
    with pytest.raises(BackendError) as failed:
        await backend_at("modal", gpu.url, client, max_response_bytes=100).run(call())

    assert failed.value.code == "bad_payload"
