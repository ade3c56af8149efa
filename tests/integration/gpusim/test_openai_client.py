"""OpenAI's client with the simulated GPU."""

import asyncio
from collections.abc import AsyncIterator

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionUserMessageParam

from tests.fixtures.gpusim import Gpusim

QUESTION: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "Is tea better?"}]


@pytest.fixture
async def client(gpu: Gpusim) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{gpu.url}/v1", api_key="any", max_retries=0) as made:
        yield made


async def test_a_plain_completion(gpu: Gpusim, client: AsyncOpenAI) -> None:
    completion = await client.chat.completions.create(
        model="llama", messages=QUESTION, extra_headers={"X-Request-Id": "r-3"}
    )
    [choice] = completion.choices
    assert choice.message.role == "assistant"
    assert "Is tea better?" in (choice.message.content or "")
    assert choice.finish_reason == "stop"
    assert completion.usage is not None
    assert completion.usage.prompt_tokens == 3
    assert completion.usage.total_tokens == 3 + completion.usage.completion_tokens
    [call] = await gpu.ledger(request_id="r-3")
    assert (call["dialect"], call["outcome"]) == ("openai", "completed")


@pytest.mark.parametrize("model", ["llama", "steady"])
async def test_a_streamed_completion_equals_the_plain_one(
    gpu: Gpusim, client: AsyncOpenAI, model: str
) -> None:
    plain = await client.chat.completions.create(model=model, messages=QUESTION)
    stream = await client.chat.completions.create(
        model=model, messages=QUESTION, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert deltas[0].delta.role == "assistant"
    assert "".join(delta.delta.content or "" for delta in deltas) == plain.choices[0].message.content
    assert [delta.finish_reason for delta in deltas if delta.finish_reason] == ["stop"]
    assert chunks[-1].usage == plain.usage
    assert [call["outcome"] for call in await gpu.ledger()] == ["completed"] * 2


async def test_a_client_that_stops_reading_aborts_the_run(gpu: Gpusim, client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(model="slow", messages=QUESTION, stream=True)
    await anext(aiter(stream))
    await stream.close()
    await gpu.wait_running(0)
    [call] = await gpu.ledger()
    assert call["outcome"] == "aborted"


async def test_a_disconnect_after_the_last_word_leaves_a_completed_run(
    gpu: Gpusim, client: AsyncOpenAI
) -> None:
    for _ in range(5):
        stream = await client.chat.completions.create(model="steady", messages=QUESTION, stream=True)
        async for _chunk in stream:
            pass
        await stream.close()
    assert [call["outcome"] for call in await gpu.ledger()] == ["completed"] * 5


async def test_a_full_gpu_is_a_rate_limit_error(gpu: Gpusim, client: AsyncOpenAI) -> None:
    await gpu.set_slots(0)
    with pytest.raises(openai.RateLimitError) as refused:
        await client.chat.completions.create(model="llama", messages=QUESTION)
    assert refused.value.code == "too_many_requests"
    with pytest.raises(openai.RateLimitError):
        await client.chat.completions.create(model="llama", messages=QUESTION, stream=True)


async def test_bad_input_is_a_typed_error_that_names_the_field(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match="messages"):
        await client.chat.completions.create(model="llama", messages=[])


async def test_a_fault_is_a_server_error(gpu: Gpusim, client: AsyncOpenAI) -> None:
    await gpu.add_fault(kind="error", status=503, next=1)
    with pytest.raises(openai.InternalServerError):
        await client.chat.completions.create(model="llama", messages=QUESTION)


async def test_the_models_are_listed(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["cold", "llama", "slow", "steady"]


async def test_streams_share_the_slots(gpu: Gpusim, client: AsyncOpenAI) -> None:
    async def read() -> int:
        stream = await client.chat.completions.create(model="steady", messages=QUESTION, stream=True)
        return len([chunk async for chunk in stream])

    await gpu.hold()
    async with asyncio.TaskGroup() as readers:
        read_by = [readers.create_task(read()) for _ in range(4)]
        await gpu.wait_running(4)
        await gpu.release()
    assert all(reader.result() for reader in read_by)
    assert (await gpu.stats())["max_concurrent"] == 4
