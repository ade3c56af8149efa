"""What backends get of chat requests, and what users see of their answers."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.fixtures.router import backend, router_config, start_router
from tests.integration.openai.harness import ChatApi, chat_api, openai_client
from tests.integration.openai.test_chat import MESSAGES
from tests.integration.router.raw_server import Connection, Handler, server_that

CHAT = {"model": "chat", "messages": MESSAGES}
COMPLETION = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}}]}


@asynccontextmanager
async def api_before(
    handler: Handler, database_url: str, redis_url: str, folder: Path
) -> AsyncIterator[ChatApi]:
    async with server_that(handler) as server:
        entry = backend("US", server.url, dialect="openai", models=("chat",))
        config = router_config({"us-1": entry}, attempts=2, backoff_max_s=0.01)
        async with (
            start_router(config) as router,
            chat_api(database_url, redis_url, config, [router.url], folder) as api,
        ):
            yield api


async def is_chat(connection: Connection) -> bool:
    """A health check is answered."""
    line = await connection.request()
    if line is not None and line.startswith("get "):
        await connection.send(response("200 OK", {}))
    return line is not None and line.startswith("post ")


def response(status: str, document: Any) -> bytes:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def test_all_parameters_reach_the_backend(database_url: str, redis_url: str, tmp_path: Path) -> None:
    bodies: list[Any] = []

    async def complete(connection: Connection) -> None:
        if await is_chat(connection):
            bodies.append(json.loads(connection.body))
            await connection.send(response("200 OK", COMPLETION))

    async with api_before(complete, database_url, redis_url, tmp_path) as api, openai_client(api) as client:
        await client.chat.completions.create(
            model="chat", messages=MESSAGES, user="anna", temperature=0.5, extra_body={"top_k": 3}
        )
    assert bodies == [{**CHAT, "stream": False, "user": "anna", "temperature": 0.5, "top_k": 3}]


@pytest.mark.parametrize(("status", "seen"), [("503 Service Unavailable", 503), ("429 Too Many", 429)])
async def test_clients_do_not_repeat_the_retries_of_the_router(
    database_url: str, redis_url: str, tmp_path: Path, status: str, seen: int
) -> None:
    calls: list[bytes] = []

    async def refuse(connection: Connection) -> None:
        if await is_chat(connection):
            calls.append(connection.body)
            await connection.send(response(status, {"error": {"message": "later", "code": "loading"}}))

    async with (
        api_before(refuse, database_url, redis_url, tmp_path) as api,
        openai_client(api, retries=3) as client,
    ):
        with pytest.raises(openai.APIStatusError) as failed:
            await client.chat.completions.create(model="chat", messages=MESSAGES)
    headers = failed.value.response.headers
    assert (failed.value.status_code, failed.value.code, len(calls)) == (seen, "loading", 2)
    assert int(headers["retry-after"]) >= 1
    assert headers["x-should-retry"] == "false"


async def test_a_backend_that_refuses_its_key_is_not_the_users_mistake(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async def refuse(connection: Connection) -> None:
        if await is_chat(connection):
            refusal = {"error": {"message": "wrong key sk-upstream"}}
            await connection.send(response("401 Unauthorized", refusal))

    body = {**CHAT, "stream": True}
    async with (
        api_before(refuse, database_url, redis_url, tmp_path) as api,
        api.http() as http,
        http.stream("POST", "/v1/chat/completions", json=body) as answer,
    ):
        assert answer.status_code == 200
        lines = answer.aiter_lines()
        reason = await anext(lines)
        while "waiting_for=" not in reason:
            reason = await anext(lines)
        assert reason.startswith(": queued")
        assert "sk-upstream" not in reason
        assert "127.0.0.1" not in reason


@pytest.mark.parametrize(
    ("kind", "body"), [("text/html", b"<h1>502 at 10.0.0.7</h1>"), ("text/event-stream", b"")]
)
async def test_an_answer_that_is_no_stream_is_a_backend_error(
    database_url: str, redis_url: str, tmp_path: Path, kind: str, body: bytes
) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"

    async def answer(connection: Connection) -> None:
        if await is_chat(connection):
            await connection.send(head.encode() + body)

    async with api_before(answer, database_url, redis_url, tmp_path) as api, openai_client(api) as client:
        with pytest.raises(openai.InternalServerError) as failed:
            await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
    assert (failed.value.status_code, failed.value.code) == (502, "bad_payload")
    assert "10.0.0.7" not in failed.value.response.text


async def test_a_backend_that_cannot_count_streams_is_asked_without(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    asked: list[bool] = []

    async def answer(connection: Connection) -> None:
        if not await is_chat(connection):
            return
        asked.append("stream_options" in json.loads(connection.body))
        if asked[-1]:
            refusal = {"error": {"message": "Unrecognized request argument supplied: stream_options"}}
            await connection.send(response("400 Bad Request", refusal))
        else:
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            chunk = {"choices": [{"index": 0, "delta": {"content": "Yes."}}], "usage": None}
            await connection.send(head + b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n")

    async with api_before(answer, database_url, redis_url, tmp_path) as api, api.http() as http:
        for _ in range(2):
            answered = await http.post("/v1/chat/completions", json={**CHAT, "stream": True})
            assert answered.status_code == 200
            assert "Yes." in answered.text
            assert "usage" not in answered.text
        refused = await http.post(
            "/v1/chat/completions",
            json={**CHAT, "stream": True, "stream_options": {"include_usage": True}},
        )
    assert asked == [True, False, False, True]
    assert (refused.status_code, "stream_options" in refused.text) == (400, True)
