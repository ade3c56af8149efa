"""Streams that run while the API or the router is stopped."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.fixtures.module_process import ModuleProcess
from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.router import TOKEN, Router, backend, router_config, start_router
from tests.fixtures.runner_process import KEYS, api_process, command
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until, within_timeout
from tests.integration.openai.test_chat import MESSAGES
from tests.integration.router.raw_server import Connection, server_that

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = (
    b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n'
)


@dataclass
class SlowBackend:
    """Sends the first word of each answer, and the rest when the test says so."""

    calls: int = 0
    finish: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, connection: Connection) -> None:
        while line := await connection.request():
            if line.startswith("post"):
                self.calls += 1
                await connection.send(HEAD + _chunked(CHUNK % b"one"))
                await self.finish.wait()
                await connection.send(
                    _chunked(CHUNK % b" two") + _chunked(b"data: [DONE]\n\n") + _chunked(b"")
                )
            else:
                await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")


@dataclass
class System:
    gpu: SlowBackend
    url: str
    api: ModuleProcess
    router: Router


@asynccontextmanager
async def system(database_url: str, redis_url: str, folder: Path) -> AsyncIterator[System]:
    """The API and a router as processes, in front of a backend whose answers the test ends."""
    gpu = SlowBackend()
    async with server_that(gpu) as server:
        entry = backend("US", server.url, dialect="openai", models=("chat",), slots=2)
        config = router_config({"us-1": entry}, stop_grace_s=WAIT_TIMEOUT_S)
        config += f"[runner]\nstop_grace_s = {WAIT_TIMEOUT_S}\n"
        file = folder / "beacon.toml"
        file.write_text(config, encoding="utf-8")
        settings = {"BEACON_CONFIG": str(file), "BEACON_SERVICE_TOKEN": TOKEN}
        await command("bootstrap", DATABASE_URL=database_url, **settings, **KEYS)
        async with (
            start_router(config) as router,
            api_process(database_url, redis_url, folder, BEACON_ROUTER_URLS=router.url, **settings) as (
                process,
                url,
            ),
        ):
            try:
                yield System(gpu, url, process, router)
            finally:
                gpu.finish.set()


def client_of(running: System) -> openai.AsyncOpenAI:
    """With connections of its own: a stopping API accepts no new ones."""
    key = KEYS["BEACON_BOOTSTRAP_ADMIN_KEY"]
    return openai.AsyncOpenAI(
        base_url=f"{running.url}/v1", api_key=key, max_retries=0, timeout=WAIT_TIMEOUT_S
    )


async def rest_of(stream: openai.AsyncStream[ChatCompletionChunk]) -> str:
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


async def test_a_stream_outlives_the_stop_of_its_api(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with system(database_url, redis_url, tmp_path) as running, within_timeout("the API stops"):
        async with client_of(running) as client:
            stream = await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
            assert (await anext(stream)).choices[0].delta.content == "one"
            running.api.send(signal.SIGTERM)

            async def refuses() -> bool:
                async with httpx.AsyncClient(base_url=running.url, verify=NO_TLS) as http:
                    try:
                        await http.get("/healthz")
                    except httpx.ConnectError:
                        return True
                    except httpx.TransportError:  # accepted before the stop, and closed
                        return False
                return False

            await until(refuses, "the API accepts no connections")
            async with client_of(running) as late:
                with pytest.raises(openai.APIConnectionError):
                    await late.chat.completions.create(model="chat", messages=MESSAGES)
            assert running.api.exit_code is None
            running.gpu.finish.set()
            assert await rest_of(stream) == " two"
        assert await asyncio.to_thread(running.api.wait) == 0
        assert running.gpu.calls == 1


async def test_a_stream_outlives_the_stop_of_its_router(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with system(database_url, redis_url, tmp_path) as running, within_timeout("the router stops"):
        async with client_of(running) as client:
            stream = await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
            assert (await anext(stream)).choices[0].delta.content == "one"
            running.router.process.send(signal.SIGTERM)

            async def refuses() -> bool:
                return (await running.router.http.get("/readyz")).status_code == 503

            await until(refuses, "the router accepts no requests")
            with pytest.raises(openai.InternalServerError) as refused:
                await client.chat.completions.create(model="chat", messages=MESSAGES)
            assert (refused.value.status_code, refused.value.code) == (503, "busy")
            assert int(refused.value.response.headers["retry-after"]) >= 1
            running.gpu.finish.set()
            assert await rest_of(stream) == " two"
        assert await asyncio.to_thread(running.router.process.wait_exit) == 0
        assert running.gpu.calls == 1


def _chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
