"""Live events over server-sent events and WebSockets on the whole system, replayed for late clients."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import httpx
import pytest
from redis.asyncio import Redis
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.stack import RunningStack
from tests.fixtures.waiting import WAIT_TIMEOUT_S

pytestmark = pytest.mark.stack

JOB = {"kind": "generation", "model": "llama3.2-1b", "prompt": "a cat", "region": "US"}
CLIENTS = 1_000


@pytest.fixture
async def http(stack: RunningStack) -> AsyncIterator[httpx.AsyncClient]:
    base = stack.url("runner")
    async with httpx.AsyncClient(
        base_url=base, headers=stack.user, timeout=WAIT_TIMEOUT_S, verify=NO_TLS
    ) as client:
        yield client


async def submit(http: httpx.AsyncClient, job: dict[str, Any] = JOB) -> str:
    answer = await http.post("/api/v1/jobs", json=job)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job_id"])


async def ticket(http: httpx.AsyncClient, job: str) -> str:
    answer = await http.post("/api/v1/tickets", json={"job_id": job})
    return str(answer.raise_for_status().json()["ticket"])


def socket_url(stack: RunningStack, job: str, query: str) -> str:
    return f"{stack.url('runner').replace('http', 'ws', 1)}/ws/{job}?{query}"


async def receive_all(url: str) -> tuple[list[dict[str, Any]], int | None, str | None]:
    """All events until the server closes, and how it closed."""
    async with asyncio.timeout(WAIT_TIMEOUT_S), connect(url) as socket:
        events = [json.loads(message) async for message in socket]
        return events, socket.close_code, socket.close_reason


async def test_a_websocket_receives_all_events_of_a_job(stack: RunningStack, http: httpx.AsyncClient) -> None:
    job = await submit(http)
    events, code, reason = await receive_all(socket_url(stack, job, f"ticket={await ticket(http, job)}"))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["type"], events[-1]["type"]) == ("JOB_QUEUED", "JOB_COMPLETE")
    assert (code, reason) == (1000, "the job has ended")


async def test_a_late_or_reconnecting_client_misses_no_event(
    stack: RunningStack, http: httpx.AsyncClient
) -> None:
    job = await submit(http)
    whole, _, _ = await receive_all(socket_url(stack, job, f"ticket={await ticket(http, job)}"))
    for known in range(len(whole)):
        query = f"ticket={await ticket(http, job)}&after={known}"
        rest, _, _ = await receive_all(socket_url(stack, job, query))
        assert rest == whole[known:]


async def test_a_ticket_opens_one_websocket(stack: RunningStack, http: httpx.AsyncClient) -> None:
    job = await submit(http)
    once = await ticket(http, job)
    await receive_all(socket_url(stack, job, f"ticket={once}"))
    with pytest.raises(InvalidStatus) as refused:
        await receive_all(socket_url(stack, job, f"ticket={once}"))
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body or b"")["code"] == "invalid_ticket"


async def test_another_users_job_is_not_found(stack: RunningStack, http: httpx.AsyncClient) -> None:
    job = await submit(http)
    made = await http.post(
        "/admin/users", json={"name": f"stranger-{job}"[:60], "tier": "free"}, headers=stack.admin
    )
    stranger = {"Authorization": f"Bearer {made.raise_for_status().json()['key']}"}
    answer = await http.post("/api/v1/tickets", json={"job_id": job}, headers=stranger)
    assert answer.status_code == 404
    answer = await http.get(f"/api/v1/jobs/{job}/events", headers={**stranger, "Accept": "text/event-stream"})
    assert answer.status_code == 404


async def test_a_ticket_is_invalid_once_its_key_is_revoked(
    stack: RunningStack, http: httpx.AsyncClient
) -> None:
    made = await http.post("/admin/users", json={"name": "for a day", "tier": "free"}, headers=stack.admin)
    user, key = made.raise_for_status().json()["id"], made.json()["key"]
    own = {"Authorization": f"Bearer {key}"}
    job = (await http.post("/api/v1/jobs", json=JOB, headers=own)).raise_for_status().json()["job_id"]
    answer = await http.post("/api/v1/tickets", json={"job_id": job}, headers=own)
    (listed,) = (await http.get(f"/admin/users/{user}/keys", headers=stack.admin)).json()["keys"]
    await http.delete(f"/admin/users/{user}/keys/{listed['id']}", headers=stack.admin)
    with pytest.raises(InvalidStatus) as refused:
        await receive_all(socket_url(stack, job, f"ticket={answer.raise_for_status().json()['ticket']}"))
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body or b"")["code"] == "unknown_key"


async def test_a_ticket_is_for_one_job(stack: RunningStack, http: httpx.AsyncClient) -> None:
    one, other = await submit(http), await submit(http)
    with pytest.raises(InvalidStatus) as refused:
        await receive_all(socket_url(stack, other, f"ticket={await ticket(http, one)}"))
    assert refused.value.response.status_code == 401


async def test_a_ticket_expires_within_half_a_minute(stack: RunningStack, http: httpx.AsyncClient) -> None:
    """Redis expires it; here its lifetime is shortened."""
    job = await submit(http)
    late = await ticket(http, job)
    async with Redis.from_url(stack.redis_url) as redis:
        (name,) = [name async for name in redis.scan_iter("ticket:*")]
        assert 0 < await redis.ttl(name) <= 30
        await redis.pexpire(name, 0)
    with pytest.raises(InvalidStatus) as refused:
        await receive_all(socket_url(stack, job, f"ticket={late}"))
    assert refused.value.response.status_code == 401


async def test_a_websocket_needs_a_key_or_a_ticket(stack: RunningStack, http: httpx.AsyncClient) -> None:
    job = await submit(http)
    with pytest.raises(InvalidStatus) as refused:
        await receive_all(socket_url(stack, job, ""))
    assert refused.value.response.status_code == 401


@pytest.mark.parametrize("after", ["-1", "abc", "9999999999"])
async def test_an_invalid_event_number_is_refused_before_the_websocket_opens(
    stack: RunningStack, http: httpx.AsyncClient, after: str
) -> None:
    job = await submit(http)
    with pytest.raises(InvalidStatus) as refused:
        await receive_all(socket_url(stack, job, f"ticket={await ticket(http, job)}&after={after}"))
    assert refused.value.response.status_code == 422


async def test_head_is_answered_where_get_is(http: httpx.AsyncClient) -> None:
    """Also for a stream, which HEAD does not keep open."""
    job = await submit(http)
    for path in ("/", "/healthz", "/api/v1/models", f"/api/v1/jobs/{job}", f"/api/v1/jobs/{job}/events"):
        head = await http.head(path)
        assert (head.status_code, head.content) == (200, b""), path
    stream = await http.head(f"/api/v1/jobs/{job}/events", headers={"Accept": "text/event-stream"})
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert (await http.head("/api/v1/jobs/nonsense")).status_code == 404


async def test_a_thousand_streams_of_one_process_receive_the_end(
    stack: RunningStack, http: httpx.AsyncClient
) -> None:
    """Of an administrator: the streams of other users are limited."""
    (await http.post("/admin/queues/high/pause", headers=stack.admin)).raise_for_status()
    try:
        job = await submit(http)
        url = f"{stack.url('runner')}/api/v1/jobs/{job}/events"
        headers = {**stack.admin, "Accept": "text/event-stream"}
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session, asyncio.timeout(WAIT_TIMEOUT_S * 2):
            streams = [await session.get(url, headers=headers) for _ in range(CLIENTS)]
            assert {stream.status for stream in streams} == {200}
            (await http.post("/admin/queues/high/resume", headers=stack.admin)).raise_for_status()
            endings = await asyncio.gather(*(_last_events(stream) for stream in streams))
        assert set(endings) == {(b"event: JOB_COMPLETE", b"event: STREAM_END")}
    finally:
        await http.post("/admin/queues/high/resume", headers=stack.admin)


async def _last_events(stream: aiohttp.ClientResponse) -> tuple[bytes, ...]:
    text = await stream.read()
    return tuple([line for line in text.splitlines() if line.startswith(b"event: ")][-2:])
