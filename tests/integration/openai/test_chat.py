"""Chat completions of the runner, through OpenAI's client."""

import asyncio
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.fixtures.gpusim import Gpusim
from tests.fixtures.router import Router
from tests.fixtures.waiting import until
from tests.integration.openai.harness import ChatApi, openai_client

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Why is the sky blue?"}]


async def test_a_plain_completion(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=5)

    choice = answer.choices[0]
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert choice.finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5


async def test_a_streamed_completion_has_the_same_words(client: openai.AsyncOpenAI) -> None:
    plain = await client.chat.completions.create(model="chat", messages=MESSAGES)
    stream = await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
    pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]

    assert len(pieces) > 5
    assert "".join(pieces) == plain.choices[0].message.content


async def test_a_model_behind_another_dialect_can_chat(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model="m", messages=MESSAGES)
    stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
    pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]

    assert "Why is the sky blue?" in (answer.choices[0].message.content or "")
    assert "Why is the sky blue?" in "".join(pieces)


async def test_the_region_can_be_chosen(client: openai.AsyncOpenAI) -> None:
    chosen = await client.chat.completions.with_raw_response.create(
        model="m", messages=MESSAGES, extra_headers={"X-Beacon-Region": "eu"}
    )

    assert chosen.headers["x-beacon-region"] == "EU"
    assert chosen.headers["x-beacon-backend"] == "eu-1"


async def test_the_models(client: openai.AsyncOpenAI) -> None:
    assert {model.id async for model in client.models.list()} == {"m", "chat"}


async def test_one_model(client: openai.AsyncOpenAI) -> None:
    assert (await client.models.retrieve("chat")).id == "chat"
    with pytest.raises(openai.NotFoundError) as refused:
        await client.models.retrieve("gpt-9")

    assert refused.value.code == "model_not_found"


async def test_unknown_routes_answer_in_openais_format(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        await client.embeddings.create(model="chat", input="Why?")

    assert (refused.value.code, refused.value.type) == ("unknown_path", "invalid_request_error")
    assert "POST /v1/chat/completions" in refused.value.message


async def test_an_unknown_model(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        await client.chat.completions.create(model="gpt-9", messages=MESSAGES)

    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")


async def test_bad_input(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model="chat", messages=[])
    assert refused.value.param == "messages"

    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model="chat", messages=MESSAGES, extra_body={"stream": "yes"})
    assert refused.value.param == "stream"

    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(
            model="chat", messages=MESSAGES, extra_headers={"X-Beacon-Region": "mars"}
        )
    assert refused.value.code == "unknown_region"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_of_the_backend_keeps_its_status_and_error(
    client: openai.AsyncOpenAI, gpu: Gpusim, stream: bool
) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        await client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=-5, stream=stream)

    async with httpx.AsyncClient(base_url=gpu.url) as direct:
        body = {"model": "chat", "messages": MESSAGES, "max_tokens": -5}
        answer = await direct.post("/v1/chat/completions", json=body)
    assert refused.value.body == answer.json()["error"]


async def test_a_queued_stream_reports_its_position(
    api: ChatApi, client: openai.AsyncOpenAI, gpu: Gpusim
) -> None:
    await gpu.hold()
    busy = [
        asyncio.ensure_future(client.chat.completions.create(model="chat", messages=MESSAGES))
        for _ in range(2)
    ]
    await gpu.wait_running(2)
    body = {"model": "chat", "messages": MESSAGES, "stream": True}
    async with api.http() as http, http.stream("POST", "/v1/chat/completions", json=body) as answer:
        lines = answer.aiter_lines()
        assert (await anext(lines)).startswith(": queued position=1")
        await gpu.release()
        rest = [line async for line in lines if line]

    assert answer.headers["x-beacon-position"] == "1"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "x-beacon-eta" in answer.headers
    assert "x-request-id" in answer.headers
    assert rest[-1] == "data: [DONE]"
    await asyncio.gather(*busy)


async def test_the_response_is_the_backends_own(client: openai.AsyncOpenAI, gpu: Gpusim) -> None:
    async with openai.AsyncOpenAI(base_url=f"{gpu.url}/v1", api_key="none") as direct:
        for options in ({}, {"stream_options": {"include_usage": True}}):
            seen = [await _shape(each, **options) for each in (client, direct)]
            assert seen[0] == seen[1]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_failing_backend(client: openai.AsyncOpenAI, gpu: Gpusim, stream: bool) -> None:
    await gpu.add_fault(kind="error", status=500, next=1)

    with pytest.raises(openai.InternalServerError) as failed:
        await client.chat.completions.create(model="chat", messages=MESSAGES, stream=stream)

    assert (failed.value.status_code, failed.value.code) == (500, "simulated_fault")
    assert failed.value.response.headers["x-should-retry"] == "false"


async def test_an_unknown_key(api: ChatApi) -> None:
    async with openai_client(api, key="sk-unknown") as stranger:
        with pytest.raises(openai.AuthenticationError) as refused:
            await stranger.chat.completions.create(model="chat", messages=MESSAGES)

    assert refused.value.code == "invalid_api_key"


async def test_a_disconnect_cancels_the_run(client: openai.AsyncOpenAI, gpu: Gpusim) -> None:
    await gpu.add_fault(kind="hang", next=1)
    call = asyncio.ensure_future(client.chat.completions.create(model="chat", messages=MESSAGES))
    await gpu.wait_running(1)

    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    await aborted(gpu)


async def test_a_disconnect_during_a_stream_cancels_the_run(client: openai.AsyncOpenAI, gpu: Gpusim) -> None:
    await gpu.add_fault(kind="hang", next=1)
    stream = await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
    await anext(stream)

    await stream.close()

    await aborted(gpu)


async def test_a_disconnect_while_queued_prevents_the_run(
    client: openai.AsyncOpenAI, router: Router, gpu: Gpusim
) -> None:
    await gpu.add_fault(kind="hang", next=2)
    hogs = [
        asyncio.ensure_future(client.chat.completions.create(model="chat", messages=MESSAGES))
        for _ in range(2)
    ]
    await gpu.wait_running(2)
    waiting = asyncio.ensure_future(client.chat.completions.create(model="chat", messages=MESSAGES))

    async def in_line() -> bool:
        return bool((await router.queues())["waiting"] == 1)

    await until(in_line, "the third waits")
    waiting.cancel()

    async def gone() -> bool:
        return bool((await router.queues())["waiting"] == 0)

    await until(gone, "the third has left")
    for hog in hogs:
        hog.cancel()
    await asyncio.gather(waiting, *hogs, return_exceptions=True)
    await gpu.wait_running(0)
    assert len(await gpu.ledger(model="chat")) == 2


async def test_a_run_that_an_operator_cancels_is_not_retried(
    api: ChatApi, router: Router, gpu: Gpusim
) -> None:
    await gpu.add_fault(kind="hang", next=1)
    async with openai_client(api, retries=1) as eager:
        call = asyncio.ensure_future(eager.chat.completions.create(model="chat", messages=MESSAGES))
        await gpu.wait_running(1)
        (running,) = (await router.queues())["regions"]["US"]["running"]
        await router.cancel(running["request_id"])

        with pytest.raises(openai.APIStatusError) as ended:
            await call
    assert (ended.value.status_code, ended.value.code) == (499, "cancelled")
    await aborted(gpu)


async def test_a_broken_stream_ends_with_an_error(client: openai.AsyncOpenAI, gpu: Gpusim) -> None:
    await gpu.add_fault(kind="truncated", next=1)
    await gpu.set_models({"chat": {"load": 0, "run": 0.5}})
    stream = await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
    await gpu.set_models({"chat": {"load": 0, "run": 0}})

    with pytest.raises(openai.APIError) as broken:
        [chunk async for chunk in stream]
    assert broken.value.code == "connection_lost"


async def aborted(gpu: Gpusim) -> None:
    async def seen() -> bool:
        return [entry["outcome"] for entry in await gpu.ledger(model="chat")] == ["aborted"]

    await until(seen, "the run is aborted")


async def _shape(client: openai.AsyncOpenAI, **options: Any) -> Any:
    """A response without its ids and times."""
    create: Any = client.chat.completions.create
    answer = await create(model="chat", messages=MESSAGES, stream=bool(options), **options)
    parts = [part async for part in answer] if options else [answer]
    return [part.model_dump(exclude={"id", "created"}) for part in parts]
