"""Completions of `/v1` are counted as usage, also after their client has disconnected."""

import openai
import pytest

from tests.fixtures.waiting import until
from tests.integration.openai.harness import ChatApi
from tests.integration.openai.test_chat import MESSAGES

USAGE_RECORDS = "SELECT model, region, tokens_in, tokens_out, failed FROM usage_records ORDER BY id"


async def recorded(api: ChatApi) -> list[tuple[str, str, int, int, bool]]:
    await api.harness.interactive_usage.flush()
    rows = await api.harness.store.database.fetch(USAGE_RECORDS)
    return [tuple(row) for row in rows]


async def test_a_completion_is_counted_with_its_tokens(api: ChatApi, client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=5)
    assert answer.usage is not None
    (row,) = await until(lambda: recorded(api), "the usage is recorded")
    assert row == ("chat", "US", answer.usage.prompt_tokens, 5, False)


@pytest.mark.parametrize("asked", [False, True])
async def test_a_stream_is_counted_with_its_tokens(
    api: ChatApi, client: openai.AsyncOpenAI, asked: bool
) -> None:
    stream = await client.chat.completions.create(
        model="chat",
        messages=MESSAGES,
        max_tokens=5,
        stream=True,
        stream_options={"include_usage": True} if asked else openai.omit,
    )
    chunks = [chunk async for chunk in stream]
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [5] * asked
    assert all(chunk.choices for chunk in chunks if not chunk.usage)
    (row,) = await until(lambda: recorded(api), "the usage is recorded")
    prompt_tokens = row[2]
    assert prompt_tokens > 0
    assert row == ("chat", "US", prompt_tokens, 5, False)


async def test_a_stream_whose_client_has_left_is_counted(api: ChatApi, client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
    await anext(stream)
    await stream.close()
    ((model, region, *_, failed),) = await until(lambda: recorded(api), "the usage is recorded")
    assert (model, region, failed) == ("chat", "US", False)


async def test_a_refused_request_is_not_counted(api: ChatApi, client: openai.AsyncOpenAI) -> None:
    for model in ("unknown", "m"):
        with pytest.raises(openai.APIStatusError):
            await client.chat.completions.create(model=model, messages=MESSAGES, n=4)
    assert await recorded(api) == []
