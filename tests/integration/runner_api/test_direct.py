"""`POST /api/v1/jobs` on the wire: what the connection answers itself, and what is left to the framework."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from starlette.types import Receive, Scope, Send

from beacon_contracts.jobs import GenerationJob
from beacon_http.replies import Reply
from tests.fixtures.waiting import patience, until
from tests.fixtures.wire import wire_to
from tests.integration.runner_api.bed import CONFIG, GENERATION, ApiBed, Caller, served

BODY = json.dumps(GENERATION).encode()
REQUESTS = "beacon_runner_http_requests_total"


class Framework:
    """Stands where the application is, and tells what came to it."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        told = {"path": scope["path"], "body": body.decode()}
        await Reply(418, json.dumps(told).encode()).send(send)


@pytest.fixture
def framework() -> Framework:
    return Framework()


@pytest.fixture
async def address(api: ApiBed, framework: Framework, tmp_path: Path) -> AsyncIterator[str]:
    async with served(api, framework, tmp_path) as address:
        yield address


@pytest.fixture
def key(anna: Caller) -> str:
    return anna.http.headers["authorization"]


def post(key: str, *more: str, body: bytes = BODY, version: str = "1.1", path: str = "/api/v1/jobs") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "host: runner", f"authorization: {key}", *more]
    if not any(line.startswith("transfer-encoding") for line in more):
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def test_a_request_that_comes_whole_is_answered_by_the_connection(
    api: ApiBed, key: str, address: str
) -> None:
    async with wire_to(address) as wire:
        for number in range(3):
            await wire.send(post(key, f"x-request-id: r{number}"))
            status, headers, job = await wire.answer()
            assert (status, headers["x-request-id"], job["status"]) == (202, f"r{number}", "queued")
            assert headers["location"] == job["links"]["self"]
    assert await api.publish() == 3
    labels = {"route": "/api/v1/jobs", "method": "POST", "status": "202"}
    assert api.metrics.get_sample_value(REQUESTS, labels) == 3


async def test_a_chunked_body_may_come_whole_too(key: str, address: str) -> None:
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    async with wire_to(address) as wire:
        await wire.send(post(key, "transfer-encoding: chunked", body=chunks))
        assert (await wire.answer())[0] == 202


async def test_an_offer_of_another_protocol_is_declined_by_an_answer(key: str, address: str) -> None:
    """Java's client offers HTTP/2 with every request until it is taken up, with bodies too."""
    offer = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABk")
    async with wire_to(address) as wire:
        await wire.send(post(key, *offer))
        assert (await wire.answer())[0] == 202
        await wire.send(post(key, *offer, path="/other"))
        status, _, told = await wire.answer()
        assert (status, told["body"]) == (418, BODY.decode())
        await wire.send(post(key, "connection: close, upgrade", "upgrade: h2c"))
        status, headers, _ = await wire.answer()
        assert (status, headers["connection"]) == (202, "close")
        assert await wire.ended()


async def test_a_refusal_leaves_the_connection_open(key: str, address: str) -> None:
    async with wire_to(address) as wire:
        await wire.send(post("Bearer nobody"))
        status, headers, problem = await wire.answer()
        assert (status, problem["code"], headers["www-authenticate"]) == (401, "unknown_key", "bearer")
        await wire.send(post(key))
        assert (await wire.answer())[0] == 202


async def test_close_is_kept_to(key: str, address: str) -> None:
    async with wire_to(address) as wire:
        await wire.send(post(key, "connection: close"))
        status, headers, _ = await wire.answer()
        assert (status, headers["connection"]) == (202, "close")
        assert await wire.ended()


async def test_a_body_above_the_limit_ends_the_connection(
    api: ApiBed, key: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = CONFIG.model_copy(update={"limits": CONFIG.limits.model_copy(update={"body_bytes": 10})})
    monkeypatch.setattr(type(api.lane.desk), "config", small)
    async with wire_to(address) as wire:
        await wire.send(post(key))
        status, headers, problem = await wire.answer()
        assert (status, headers["connection"], problem["code"]) == (413, "close", "body_too_large")
        assert await wire.ended()


@pytest.mark.parametrize(
    "request_of",
    [
        lambda key: post(key, version="1.0"),
        lambda key: post(key, "expect: 100-continue"),
        lambda key: post(key, path="/api/v1/jobs?x=1"),
        lambda key: post(key, path="/api/v1/jobs/batch"),
        lambda key: post(key).replace(b"POST", b"PUT"),
    ],
)
async def test_what_is_out_of_the_ordinary_is_left_to_the_framework(
    key: str, address: str, request_of: Any
) -> None:
    async with wire_to(address) as wire:
        await wire.send(request_of(key))
        status, _, told = await wire.answer()
        if status == 100:
            status, _, told = await wire.answer()
        assert (status, told["body"]) == (418, BODY.decode())


async def test_a_body_that_is_still_on_its_way_is_left_to_the_framework(
    key: str, address: str, framework: Framework
) -> None:
    whole = post(key)
    async with wire_to(address) as wire:
        for number, cut in enumerate((len(whole) - len(BODY), len(whole) - 1), start=1):
            await wire.send(whole[:cut])
            await until(lambda: framework.asked == number, "it has the beginning")  # noqa: B023
            await wire.send(whole[cut:])
            status, _, told = await wire.answer()
            assert (status, told["body"]) == (418, BODY.decode())
        await wire.send(whole)
        assert (await wire.answer())[0] == 202


async def test_requests_on_one_connection_are_answered_in_their_order(key: str, address: str) -> None:
    async with wire_to(address) as wire:
        await wire.send(post(key) + post(key, path="/other") + post(key))
        assert [(await wire.answer())[0] for _ in range(3)] == [202, 418, 418]
        await wire.send(post(key))
        assert (await wire.answer())[0] == 202


async def test_half_a_request_that_is_broken_is_refused_once(key: str, address: str) -> None:
    async with wire_to(address) as wire:
        await wire.send(post(key, "transfer-encoding: chunked", body=b"not a length\r\n"))
        async with patience("it is refused"):
            answer = await wire.reader.read()
        assert answer.startswith(b"HTTP/1.1 400")
        assert answer.count(b"HTTP/1.1") == 1


async def test_who_hangs_up_has_a_job_all_the_same(api: ApiBed, key: str, address: str) -> None:
    async with wire_to(address) as wire:
        await wire.send(post(key))
    await until(api.publish, "the job is stored")


async def test_a_defect_is_answered_and_logged_with_the_ids_of_the_request(
    api: ApiBed, key: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> GenerationJob:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(type(api.lane.desk), "take", broken)
    with structlog.testing.capture_logs([structlog.contextvars.merge_contextvars]) as lines:
        async with wire_to(address) as wire:
            await wire.send(post(key, "x-request-id: r7"))
            status, headers, problem = await wire.answer()
    assert (status, headers["x-request-id"], problem["code"]) == (500, "r7", "internal_error")
    assert [(line["event"], line["request_id"]) for line in lines] == [("request_crashed", "r7")]
