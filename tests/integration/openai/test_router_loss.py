"""A chat request whose router is killed."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import openai
import pytest

from beacon_runner.router_client import RouterTimeouts
from tests.fixtures.gpusim import Gpusim
from tests.fixtures.router import Router, backend, router_config, start_router
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until
from tests.integration.openai.harness import ChatApi, chat_api, openai_client
from tests.integration.openai.test_chat import MESSAGES


@pytest.fixture
async def routers(gpu: Gpusim) -> AsyncIterator[list[Router]]:
    entry = backend("US", gpu.url, dialect="openai", models=("chat",), slots=2)
    async with AsyncExitStack() as stack:
        config = router_config({"us-1": entry})
        yield [await stack.enter_async_context(start_router(config)) for _ in range(2)]


@pytest.fixture
async def api(
    database_url: str, redis_url: str, gpu: Gpusim, routers: list[Router], tmp_path: Path
) -> AsyncIterator[ChatApi]:
    entry = backend("US", gpu.url, dialect="openai", models=("chat",), slots=2)
    config = router_config({"us-1": entry})
    urls = [router.url for router in routers]
    async with chat_api(database_url, redis_url, config, urls, tmp_path) as served:
        yield served


async def test_a_request_moves_to_another_router_until_its_response_has_begun(
    api: ChatApi, routers: list[Router], gpu: Gpusim
) -> None:
    await gpu.hold()
    async with openai_client(api) as client:
        plain = asyncio.ensure_future(client.chat.completions.create(model="chat", messages=MESSAGES))
        await gpu.wait_running(1)
        owner, other = await _by_use(routers)
        await asyncio.to_thread(owner.process.kill)

        async def moved() -> bool:
            return bool((await other.queues())["running"] == 1)

        await until(moved, "the other router runs it")
        await gpu.release()
        assert (await plain).choices[0].message.content

        await gpu.hold()
        stream = await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
        await anext(stream)
        await asyncio.to_thread(other.process.kill)
        with pytest.raises(openai.APIError) as lost:
            async for _ in stream:
                pass
    assert lost.value.code == "connection_lost"


async def test_a_stream_reports_that_no_router_answers(
    database_url: str, redis_url: str, tmp_path: Path, gpu: Gpusim
) -> None:
    """Before a router has answered, and after one that had has frozen."""
    config = router_config({"us-1": backend("US", gpu.url, dialect="openai", models=("chat",), slots=1)})
    timeouts = RouterTimeouts(silence_s=0.2, exchange_s=WAIT_TIMEOUT_S)
    comment = ": queued waiting_for=no router answers"
    body = {"model": "chat", "messages": MESSAGES}
    async with (
        start_router(config) as router,
        chat_api(database_url, redis_url, config, [router.url], tmp_path, timeouts=timeouts) as api,
        api.http() as http,
    ):
        await gpu.hold()
        running = asyncio.ensure_future(http.post("/v1/chat/completions", json=body))
        await gpu.wait_running(1)
        try:
            router.process.send(signal.SIGSTOP)
            async with http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as answer:
                lines = answer.aiter_lines()
                assert [await anext(lines) for _ in range(4)] == [comment, "", comment, ""]
                router.process.send(signal.SIGCONT)
                while not (await anext(lines)).startswith(": queued position=1"):
                    pass
                router.process.send(signal.SIGSTOP)
                while await anext(lines) != comment:
                    pass
                router.process.send(signal.SIGCONT)
                await gpu.release()
                rest = [line async for line in lines]
        finally:
            router.process.send(signal.SIGCONT)
        assert (await running).status_code == 200
    events = [line for line in rest if line.startswith("data: ")]
    assert events[-1] == "data: [DONE]"
    assert comment not in rest[rest.index(events[0]) :]


async def _by_use(routers: list[Router]) -> list[Router]:
    """The router that runs the request first."""
    running = {router.url: (await router.queues())["running"] for router in routers}
    return sorted(routers, key=lambda router: -running[router.url])
