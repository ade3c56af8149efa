"""`POST /api/v1/jobs` over a real connection."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from beacon_runner.application.submissions import SubmissionService
from tests.fixtures.waiting import until, within_timeout
from tests.fixtures.wire import wire_to
from tests.integration.runner_api.harness import CONFIG, GENERATION, ApiHarness, Caller, served

BODY = json.dumps(GENERATION).encode()
REQUESTS = "beacon_runner_http_requests_total"


@pytest.fixture
async def address(api: ApiHarness, tmp_path: Path) -> AsyncIterator[str]:
    async with served(api, api.transport.app, tmp_path) as address:
        yield address


@pytest.fixture
def key(anna: Caller) -> str:
    return anna.http.headers["authorization"]


def post(
    key: str, *headers: str, body: bytes = BODY, version: str = "1.1", path: str = "/api/v1/jobs"
) -> bytes:
    lines = [f"POST {path} HTTP/{version}", "host: runner", f"authorization: {key}", *headers]
    if not any(line.startswith(("transfer-encoding", "content-length")) for line in headers):
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def test_responses_have_request_id_and_location(api: ApiHarness, key: str, address: str) -> None:
    async with wire_to(address) as wire:
        for number in range(3):
            await wire.send(post(key, f"x-request-id: r{number}"))
            status, headers, job = await wire.answer()
            assert (status, headers["x-request-id"], job["status"]) == (202, f"r{number}", "queued")
            assert headers["location"] == job["links"]["self"]
    assert await api.publish() == 3
    labels = {"route": "/api/v1/jobs", "method": "POST", "status": "202"}
    assert api.metrics.get_sample_value(REQUESTS, labels) == 3


CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize(
    "request_of",
    [
        lambda key: post(key, "transfer-encoding: chunked", body=CHUNKED),
        lambda key: post(key, version="1.0"),
        lambda key: post(key, path="/api/v1/jobs?"),
        lambda key: post(key, "expect: 100-continue"),
    ],
)
async def test_every_form_of_request_is_accepted(key: str, address: str, request_of: Any) -> None:
    async with wire_to(address) as wire:
        await wire.send(request_of(key))
        status, _, _ = await wire.answer()
        if status == 100:
            status, _, _ = await wire.answer()
        assert status == 202


async def test_an_offer_of_http2_is_ignored(key: str, address: str) -> None:
    """Java's client offers HTTP/2 with every request, also with bodies."""
    offer = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABk")
    async with wire_to(address) as wire:
        await wire.send(post(key, *offer))
        assert (await wire.answer())[0] == 202


async def test_an_error_leaves_the_connection_open(key: str, address: str) -> None:
    async with wire_to(address) as wire:
        await wire.send(post("Bearer unknown"))
        status, headers, problem = await wire.answer()
        assert (status, problem["code"], headers["www-authenticate"]) == (401, "unknown_key", "bearer")
        await wire.send(post(key))
        assert (await wire.answer())[0] == 202


async def test_connection_close_is_honoured(key: str, address: str) -> None:
    async with wire_to(address) as wire:
        await wire.send(post(key, "connection: close"))
        status, headers, _ = await wire.answer()
        assert (status, headers["connection"]) == (202, "close")
        assert await wire.ended()


async def test_a_body_above_the_limit_ends_the_connection(key: str, address: str) -> None:
    async with wire_to(address) as wire:
        await wire.send(post(key, body=b" " * (CONFIG.limits.body_bytes + 1)))
        status, headers, problem = await wire.answer()
        assert (status, headers["connection"], problem["code"]) == (413, "close", "body_too_large")
        assert await wire.ended()


async def test_a_body_above_the_limit_gets_no_100_continue(key: str, address: str) -> None:
    length = CONFIG.limits.body_bytes + 1
    async with wire_to(address) as wire:
        await wire.send(post(key, "expect: 100-continue", f"content-length: {length}", body=b""))
        status, headers, problem = await wire.answer()
        assert (status, headers["connection"], problem["code"]) == (413, "close", "body_too_large")
        assert await wire.ended()


async def test_a_body_may_arrive_in_parts(key: str, address: str) -> None:
    whole = post(key)
    async with wire_to(address) as wire:
        for cut in (len(whole) - len(BODY), len(whole) - 1):
            await wire.send(whole[:cut])
            await wire.send(whole[cut:])
            assert (await wire.answer())[0] == 202


async def test_pipelined_requests_are_answered_in_order(key: str, address: str) -> None:
    async with wire_to(address) as wire:
        await wire.send(post(key) + post(key, path="/other") + post(key))
        assert [(await wire.answer())[0] for _ in range(3)] == [202, 404, 202]
        await wire.send(post(key))
        assert (await wire.answer())[0] == 202


async def test_a_malformed_body_is_refused_once(key: str, address: str) -> None:
    async with wire_to(address) as wire:
        await wire.send(post(key, "transfer-encoding: chunked", body=b"not a length\r\n"))
        async with within_timeout("it is refused"):
            answer = await wire.reader.read()
        assert answer.startswith(b"HTTP/1.1 400")
        assert answer.count(b"HTTP/1.1") == 1


async def test_a_disconnect_during_upload_is_not_logged_as_an_error(
    api: ApiHarness, key: str, address: str
) -> None:
    with structlog.testing.capture_logs() as lines:
        async with wire_to(address) as wire:
            await wire.send(post(key)[:-1])
            wire.hang_up()
        labels = {"route": "/api/v1/jobs", "method": "POST", "status": "499"}
        await until(lambda: api.metrics.get_sample_value(REQUESTS, labels) == 1, "the request has ended")
    assert [line for line in lines if line["event"] == "request_failed"] == []


async def test_a_defect_is_answered_and_logged_with_the_request_id(
    key: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(SubmissionService, "submit", broken)
    with structlog.testing.capture_logs([structlog.contextvars.merge_contextvars]) as lines:
        async with wire_to(address) as wire:
            await wire.send(post(key, "x-request-id: r7"))
            status, headers, problem = await wire.answer()
    assert (status, headers["x-request-id"], problem["code"]) == (500, "r7", "internal_error")
    crashed = [line for line in lines if line["event"] == "request_failed"]
    assert [line["request_id"] for line in crashed] == ["r7"]
