"""What chat requests may ask for: limits of the tier, capabilities of backends, valid input."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from beacon_contracts.accounts import Scope
from beacon_contracts.api_keys import new_api_key
from beacon_contracts.ids import KeyId, UserId, new_uuid
from beacon_runner.domain.accounts.usage import InteractiveUsage
from beacon_runner.postgres.accounts.usage import PostgresUsage
from tests.fixtures.gpusim import Gpusim, GpusimProcess
from tests.fixtures.router import Router, RouterProcess, backend, router_config, router_process, start_router
from tests.fixtures.waiting import until, within_timeout
from tests.integration.openai.harness import ChatApi, chat_api, openai_client
from tests.integration.openai.test_chat import MESSAGES
from tests.integration.router.raw_server import Connection, server_that

LIMITS = """[tiers."free"]
requests_per_minute = 3
concurrent_requests = 2
gpu_seconds_per_day = 60
max_duration_s = 30
models = ["m", "both"]
"""
ORIGIN = "https://app.example"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
KEY, CODE = "sk-upstream-secret", "context_length_exceeded"
NEEDS: list[tuple[str, dict[str, Any]]] = [
    ("tools", {"tools": [TOOL]}),
    ("response_format", {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}),
    ("logprobs", {"logprobs": True}),
    ("n", {"n": 2}),
    ("messages", {"messages": [{"role": "user", "content": [IMAGE]}]}),
]
INVALID: list[tuple[str, dict[str, Any]]] = [
    ("messages", {"messages": "hello"}),
    ("messages[0]", {"messages": ["hello"]}),
    ("messages[0].content", {"messages": [{"role": "user", "content": 5}]}),
    ("messages[0].content[0]", {"messages": [{"role": "user", "content": ["hello"]}]}),
    (
        "messages[0].content[0].image_url",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
    ),
    ("temperature", {"temperature": "hot"}),
    ("n", {"n": True}),
    ("tools", {"tools": "f"}),
    ("stream", {"stream": 1}),
    ("tools[0]", {"tools": ["f"]}),
    ("stop[1]", {"stop": ["a", 5]}),
    ("functions[0]", {"functions": [1]}),
    ("modalities[0]", {"modalities": [1]}),
    ("function_call", {"function_call": 5}),
    ("response_format.type", {"response_format": {"type": 5}}),
    ("stream_options.include_usage", {"stream_options": {"include_usage": "yes"}}),
    ("messages[0].tool_calls", {"messages": [{"role": "assistant", "tool_calls": "f"}]}),
    ("n", {"n": 0}),
    ("duration", {"duration": 100_000}),
    ("params.duration", {"params": {"duration": 100_000}}),
    ("input.duration", {"input": {"duration": 100_000}}),
    ("model", {"model": "flux"}),
]


@pytest.fixture(scope="module")
def config(gpu_process: GpusimProcess) -> str:
    text = router_config(
        {
            "us-1": backend("US", gpu_process.url, models=("m", "both"), slots=4),
            "eu-1": backend("EU", gpu_process.url, dialect="openai", models=("chat", "both"), slots=2),
            "us-2": backend("US", gpu_process.url, models=("flux",)),
        },
        models={"m": {"expected_load_s": 0.0, "expected_run_s": 0.05, "kind": "chat"}},
    )
    return text.replace('[tiers."free"]\n', LIMITS) + f'[api]\ncors_origins = ["{ORIGIN}"]\n'


@pytest.fixture(scope="module")
def shared_router(config: str) -> Iterator[RouterProcess]:
    with router_process(config) as running:
        yield running


@pytest.fixture
async def free(api: ChatApi) -> AsyncIterator[openai.AsyncOpenAI]:
    key = new_api_key()
    await api.harness.users.add("ben", "free", key, [Scope.USER])
    async with openai_client(api, key=key) as made:
        yield made


async def test_models_that_the_tier_may_not_use_do_not_exist(free: openai.AsyncOpenAI) -> None:
    assert {model.id async for model in free.models.list()} == {"m", "both"}
    with pytest.raises(openai.NotFoundError) as refused:
        await free.models.retrieve("chat")
    assert refused.value.code == "model_not_found"


async def test_a_parameter_that_no_backend_supports_is_named(client: openai.AsyncOpenAI, gpu: Gpusim) -> None:
    create: Any = client.chat.completions.create
    for param, body in NEEDS:
        with pytest.raises(openai.BadRequestError) as refused:
            await create(**{"model": "m", "messages": MESSAGES, **body})
        assert (refused.value.code, refused.value.param) == ("unsupported_parameter", param)
    assert await gpu.ledger(model="m") == []


async def test_a_request_runs_where_it_can(client: openai.AsyncOpenAI) -> None:
    create: Any = client.chat.completions.with_raw_response.create
    regions = [
        (await create(model="both", messages=MESSAGES, tools=[TOOL])).headers["x-beacon-region"]
        for _ in range(4)
    ]
    assert regions == ["EU"] * 4
    with pytest.raises(openai.BadRequestError) as refused:
        await create(model="both", messages=MESSAGES, tools=[TOOL], extra_headers={"X-Beacon-Region": "US"})
    assert refused.value.code == "unsupported_parameter"


async def test_invalid_input_is_named_and_counts_nothing(free: openai.AsyncOpenAI, gpu: Gpusim) -> None:
    for param, body in INVALID:
        with pytest.raises(openai.BadRequestError) as refused:
            await free.chat.completions.create(model="m", messages=MESSAGES, extra_body=body)
        assert refused.value.param == param
    assert await gpu.ledger() == []
    answer = await free.chat.completions.with_raw_response.create(model="m", messages=MESSAGES)
    assert answer.headers["x-ratelimit-remaining-requests"] == "2"


async def test_gpu_seconds_of_a_day_limit_requests(
    api: ChatApi, free: openai.AsyncOpenAI, gpu: Gpusim
) -> None:
    """As they limit jobs: the same seconds count."""
    await free.chat.completions.create(model="m", messages=MESSAGES)
    store = PostgresUsage(api.harness.store.database)
    user = UserId(await api.harness.store.database.fetchval("SELECT id FROM users WHERE name = 'ben'"))
    await store.add_interactive(
        [InteractiveUsage(user, KeyId(new_uuid()), "m", "US", 0, 20, 40, 0, 0, failed=False)]
    )
    before = await gpu.ledger(model="m")
    for stream in (False, True):
        with pytest.raises(openai.RateLimitError) as refused:
            await free.chat.completions.create(model="m", messages=MESSAGES, stream=stream)
        assert refused.value.code == "gpu_seconds_per_day_limit"
        assert 0 < int(refused.value.response.headers["retry-after"]) <= 86_400
    assert await gpu.ledger(model="m") == before


async def test_malformed_and_oversized_bodies_have_openais_errors(api: ChatApi, gpu: Gpusim) -> None:
    path = "/v1/chat/completions"
    large = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * (21 << 20)}}
    async with api.http() as http:
        answers = [
            await http.post(path, content=b"{"),
            await http.post(path, content=b"[]"),
            await http.post(path, json={"model": "chat", "messages": [{"role": "user", "content": [large]}]}),
            await http.get("/v1/embeddings"),
            await http.get("/v1"),
            await http.get(path),
        ]
    found = [(answer.status_code, answer.json()["error"]["code"]) for answer in answers]
    assert found == [
        (400, "invalid_json"),
        (400, "invalid_json"),
        (413, "body_too_large"),
        (404, "unknown_path"),
        (404, "unknown_path"),
        (405, "method_not_allowed"),
    ]
    assert await gpu.ledger() == []


@pytest.mark.parametrize("encoding", ["gzip", "br"])
async def test_a_compressed_body_is_refused_by_name(api: ChatApi, gpu: Gpusim, encoding: str) -> None:
    body = gzip.compress(json.dumps({"model": "chat", "messages": MESSAGES}).encode())
    async with api.http() as http:
        answer = await http.post("/v1/chat/completions", content=body, headers={"content-encoding": encoding})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (415, "unsupported_encoding")
    assert error["type"] == "invalid_request_error"
    assert encoding in error["message"]
    assert await gpu.ledger() == []


async def test_an_encoding_that_changes_nothing_is_accepted(api: ChatApi) -> None:
    headers = {"content-encoding": "identity"}
    async with api.http() as http:
        answer = await http.post(
            "/v1/chat/completions", json={"model": "chat", "messages": MESSAGES}, headers=headers
        )
    assert answer.status_code == 200


async def test_oversized_headers_are_refused_and_count_nothing(
    api: ChatApi, free: openai.AsyncOpenAI, gpu: Gpusim
) -> None:
    host, port = api.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {free.api_key}\r\n"
    writer.write(f"{head}x-other: {'a' * 70_000}".encode())
    async with within_timeout("it is refused"):
        assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 400 Bad Request\r\n"
    writer.close()
    assert await gpu.ledger() == []
    answer = await free.chat.completions.with_raw_response.create(model="m", messages=MESSAGES)
    assert answer.headers["x-ratelimit-remaining-requests"] == "2"


async def test_a_web_page_may_read_a_stream_that_waits(api: ChatApi, gpu: Gpusim, router: Router) -> None:
    """The headers are sent before the run: with the origin and the names of those that pages may read."""
    await gpu.hold()
    body = {"model": "chat", "messages": MESSAGES, "stream": True}

    async def none_waits() -> bool:
        return bool((await router.queues())["waiting"] == 0)

    async with api.http() as http:
        busy = [asyncio.ensure_future(http.post("/v1/chat/completions", json=body)) for _ in range(2)]
        await gpu.wait_running(2)
        for origin, allowed in ((ORIGIN, ORIGIN), ("https://other.example", None)):
            await until(none_waits, "the stream before has been cancelled")
            request = http.stream("POST", "/v1/chat/completions", json=body, headers={"origin": origin})
            async with request as answer:
                assert (await anext(answer.aiter_lines())).startswith(": queued position=1")
                assert answer.headers.get("access-control-allow-origin") == allowed
            if allowed:
                exposed = answer.headers["access-control-expose-headers"].lower()
                assert {"x-beacon-position", "x-beacon-eta", "x-request-id"} <= set(exposed.split(", "))
        await gpu.release()
        assert [answer.status_code for answer in await asyncio.gather(*busy)] == [200, 200]


async def test_a_limit_is_refused_with_its_headers(free: openai.AsyncOpenAI) -> None:
    for _ in range(3):
        await free.chat.completions.create(model="m", messages=MESSAGES)
    with pytest.raises(openai.RateLimitError) as refused:
        await free.chat.completions.create(model="m", messages=MESSAGES)

    headers = refused.value.response.headers
    assert refused.value.code == "rate_limit_exceeded"
    assert (headers["x-ratelimit-limit-requests"], headers["x-ratelimit-remaining-requests"]) == ("3", "0")
    assert 1 <= int(headers["retry-after"]) <= 60
    assert "x-should-retry" not in headers


async def test_an_ended_request_frees_its_place(api: ChatApi, free: openai.AsyncOpenAI, gpu: Gpusim) -> None:
    await gpu.hold()
    running = asyncio.ensure_future(free.chat.completions.create(model="m", messages=MESSAGES))
    stream = asyncio.ensure_future(free.chat.completions.create(model="m", messages=MESSAGES, stream=True))
    await gpu.wait_running(2)
    with pytest.raises(openai.RateLimitError) as refused:
        await free.chat.completions.create(model="m", messages=MESSAGES)
    assert refused.value.response.headers["x-ratelimit-remaining-concurrent-requests"] == "0"

    stream.cancel()
    await gpu.wait_running(1)

    async def free_again() -> bool:
        async with api.http() as http:
            me = (await http.get("/api/v1/me", headers={"authorization": f"Bearer {free.api_key}"})).json()
        return bool(me["limits"]["concurrent_requests"]["used"] == 1)

    await until(free_again, "the cancelled request counts no more")
    await gpu.release()
    assert (await running).choices[0].message.content


async def test_usage_is_counted_or_omitted(api: ChatApi) -> None:
    body = {"model": "m", "messages": MESSAGES}
    streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
    async with api.http() as http:
        plain = (await http.post("/v1/chat/completions", json=body)).json()
        stream = (await http.post("/v1/chat/completions", json=streamed)).text
    if "usage" in plain:
        assert plain["usage"]["total_tokens"] > 0
    assert '"usage":null' not in stream


async def test_an_error_of_a_backend_has_no_credentials_and_no_address(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async def refuse(connection: Connection) -> None:
        await connection.request()
        error = {"message": f"{url} got {KEY}", "type": "invalid_request_error", "code": CODE}
        body = json.dumps({"error": error}).encode()
        head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        await connection.send(head % len(body) + body)

    async with server_that(refuse) as server:
        url = server.url
        entry = backend("US", url, dialect="openai", models=("chat",), api_key_env="UPSTREAM_KEY")
        config = router_config({"us-1": entry}, attempts=1)
        async with (
            start_router(config, UPSTREAM_KEY=KEY) as router,
            chat_api(database_url, redis_url, config, [router.url], tmp_path) as api,
            openai_client(api) as client,
        ):
            with pytest.raises(openai.BadRequestError) as failed:
                await client.chat.completions.create(model="chat", messages=MESSAGES)

    assert failed.value.code == CODE
    assert KEY not in failed.value.response.text
    assert url.removeprefix("http://") not in failed.value.response.text
