"""A client that stops reading its stream, through both services."""

import asyncio
from pathlib import Path

from tests.fixtures.router import backend, router_config, start_router
from tests.fixtures.waiting import until
from tests.integration.openai.harness import chat_api
from tests.integration.openai.test_backends import CHAT, is_chat
from tests.integration.router.raw_server import Connection, server_that

PIECE = b"data: " + b"x" * 60_000 + b"\n\n"
MAX_PASSED_ON_BYTES = 32 * 1024 * 1024  # buffers of four sockets and two services


async def test_a_client_that_stops_reading_slows_its_backend_and_frees_its_slot(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    sent = 0
    left = asyncio.Event()

    async def endless(connection: Connection) -> None:
        nonlocal sent
        if not await is_chat(connection):
            return
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        try:
            while True:
                await connection.send(PIECE)
                sent += len(PIECE)
        except ConnectionError:
            left.set()

    async with server_that(endless) as server:
        entry = backend("US", server.url, dialect="openai", models=("chat",), slots=1)
        config = router_config({"us-1": entry}, reader_timeout_s=0.5)
        async with (
            start_router(config) as router,
            chat_api(database_url, redis_url, config, [router.url], tmp_path) as api,
            api.http() as http,
            http.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}),
        ):
            await until(left.is_set, "the run is ended at the backend")
            assert sent < MAX_PASSED_ON_BYTES
            queues = await router.queues()
            (us,) = queues["regions"]["US"]["backends"]
            assert (queues["running"], us["busy"], us["breaker"]["state"]) == (0, 0, "closed")
