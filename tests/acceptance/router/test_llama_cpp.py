"""Beacon in front of a llama.cpp server, through OpenAI's client."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from beacon_contracts.inference import InferenceState
from tests.fixtures.llama_server import llama_server, python_with_llama
from tests.fixtures.router import (
    Router,
    RouterProcess,
    backend,
    router_client,
    router_config,
    router_process,
)
from tests.integration.openai.harness import chat_api, openai_client

PYTHON = python_with_llama()
pytestmark = pytest.mark.skipif(
    PYTHON is None, reason="llama.cpp is not installed: `make llama` installs it where there is a wheel"
)

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "once upon a time"}]


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    assert PYTHON is not None
    with llama_server(PYTHON) as url:
        yield url


@pytest.fixture(scope="module")
def config(llama: str) -> str:
    return router_config({"llama": backend("US", llama, dialect="openai", models=("tiny",), slots=2)})


@pytest.fixture(scope="module")
def process(config: str) -> Iterator[RouterProcess]:
    with router_process(config) as running:
        yield running


@pytest.fixture
async def router(process: RouterProcess) -> AsyncIterator[Router]:
    async with router_client(process) as client:
        yield client


@pytest.fixture
async def client(
    database_url: str, redis_url: str, config: str, process: RouterProcess, tmp_path: Path
) -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        chat_api(database_url, redis_url, config, [process.url], tmp_path) as api,
        openai_client(api) as made,
    ):
        yield made


async def test_an_inference(router: Router) -> None:
    view = await router.infer("llama-1", model="tiny", params={"max_tokens": 8, "temperature": 0})

    assert view.state is InferenceState.COMPLETED
    assert isinstance(view.output, str)
    assert (view.actual_region, view.backend) == ("US", "llama")


async def test_plain_and_streamed_answers_are_equal(client: openai.AsyncOpenAI) -> None:
    afresh = {"cache_prompt": False}  # a prompt that is kept is computed in other steps, which may round
    plain = await client.chat.completions.create(
        model="tiny", messages=MESSAGES, max_tokens=16, temperature=0, extra_body=afresh
    )
    stream = await client.chat.completions.create(
        model="tiny", messages=MESSAGES, max_tokens=16, temperature=0, stream=True, extra_body=afresh
    )
    pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]

    assert plain.usage is not None
    assert 0 < plain.usage.completion_tokens <= 16
    assert "".join(pieces) == plain.choices[0].message.content


async def test_a_refusal_has_its_own_error(client: openai.AsyncOpenAI, llama: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{llama}/v1", api_key="none", max_retries=0) as direct:
        errors = []
        for each in (client, direct):
            with pytest.raises(openai.APIStatusError) as refused:
                await each.chat.completions.create(
                    model="tiny",
                    messages=MESSAGES,
                    extra_body={"logit_bias": {"x": "y"}, "grammar": "root ::= ("},
                )
            errors.append((refused.value.status_code, refused.value.body))

    assert errors[0] == errors[1]


async def test_requests_beyond_its_slots_wait(router: Router) -> None:
    views = await asyncio.gather(
        *(router.infer(f"many-{number}", model="tiny", params={"max_tokens": 4}) for number in range(12))
    )

    assert {view.state for view in views} == {InferenceState.COMPLETED}
