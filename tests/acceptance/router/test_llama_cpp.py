"""The router in front of a backend that is not ours: a llama.cpp server, through OpenAI's own client."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from beacon_contracts.inference import InferenceState
from tests.fixtures.llama_server import llama_server, python_with_llama
from tests.fixtures.router import (
    TOKEN,
    Router,
    RouterProcess,
    backend,
    router_client,
    router_config,
    router_process,
)

PYTHON = python_with_llama()
pytestmark = pytest.mark.skipif(
    PYTHON is None, reason="llama.cpp is not installed: `make llama` installs it where there is a wheel"
)

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "once upon a time"}]


@pytest.fixture(scope="module")
def process() -> Iterator[RouterProcess]:
    assert PYTHON is not None
    with llama_server(PYTHON) as url:
        config = router_config({"llama": backend("US", url, dialect="openai", models=("tiny",), slots=2)})
        with router_process(config) as running:
            yield running


@pytest.fixture
async def router(process: RouterProcess) -> AsyncIterator[Router]:
    async with router_client(process) as client:
        yield client


@pytest.fixture
async def client(router: Router) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{router.url}/v1", api_key=TOKEN, max_retries=0) as made:
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


async def test_a_refusal_of_the_backend_is_returned(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model="tiny", messages=MESSAGES, temperature="hot")  # type: ignore[call-overload]

    assert refused.value.code == "backend_refused"


async def test_requests_beyond_its_slots_wait(router: Router) -> None:
    views = await asyncio.gather(
        *(router.infer(f"many-{number}", model="tiny", params={"max_tokens": 4}) for number in range(12))
    )

    assert {view.state for view in views} == {InferenceState.COMPLETED}
