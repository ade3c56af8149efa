"""User keys at the OpenAI-compatible API: keys and tiers are those of the runner."""

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.fixtures.stack import RunningStack

pytestmark = pytest.mark.stack

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Why is the sky blue?"}]


async def test_a_user_key_is_accepted(stack: RunningStack) -> None:
    async with openai_client(stack, stack.credentials.user_key) as client:
        answer = await client.chat.completions.create(model="llama3.2-1b", messages=MESSAGES)
        stream = await client.chat.completions.create(model="llama3.2-1b", messages=MESSAGES, stream=True)
        words = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]

    assert "Why is the sky blue?" in (answer.choices[0].message.content or "")
    assert "Why is the sky blue?" in "".join(words)


async def test_a_key_that_the_runner_does_not_know_is_refused(stack: RunningStack) -> None:
    async with openai_client(stack, "bk_unknown") as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            await client.chat.completions.create(model="llama3.2-1b", messages=MESSAGES)

    assert refused.value.code == "invalid_api_key"


async def test_a_users_key_is_not_the_service_token(stack: RunningStack) -> None:
    async with openai_client(stack, stack.credentials.user_key) as client:
        with pytest.raises(openai.PermissionDeniedError):
            await client.get("/../status", cast_to=dict)


def openai_client(stack: RunningStack, key: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{stack.credentials.router_url}/v1", api_key=key, max_retries=0)
