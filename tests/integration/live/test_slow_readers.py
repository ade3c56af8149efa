"""A client that does not read is disconnected after the send timeout and can resume without loss."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from beacon_contracts.ids import decode_job_id
from beacon_http.server import ServerLimits
from tests.fixtures.waiting import until
from tests.integration.live.stalled import (
    SOCKET_IS_OVER,
    STREAM_IS_OVER,
    StalledClient,
    received_by_socket,
    received_by_stream,
    socket_request,
    stream_request,
)
from tests.integration.runner_api.harness import GENERATION, ApiHarness, Caller, served
from tests.integration.runner_store.statements import MANY_EVENTS

EVENTS = 12_000
EVENT_BYTES = 1_000
JSON_PAGE = b"accept: application/json\r\n"


@pytest.fixture
async def address(api: ApiHarness, tmp_path: Path) -> AsyncIterator[str]:
    async with served(api, api.transport.app, tmp_path, ServerLimits(send_timeout_s=0.5)) as address:
        yield address


@pytest.fixture
async def job(api: ApiHarness, anna: Caller) -> str:
    """A waiting job with more events than the buffers of a connection hold."""
    job = await anna.submit(GENERATION)
    await api.store.database.execute(MANY_EVENTS, decode_job_id(job), EVENTS, EVENT_BYTES)
    return job


@pytest.mark.parametrize("request_of", [stream_request, socket_request])
async def test_a_client_that_reads_no_events_is_disconnected(
    api: ApiHarness, address: str, anna: Caller, job: str, request_of: Callable[[Caller, str], bytes]
) -> None:
    client = await StalledClient.to(address, request_of(anna, job))
    await until(lambda: len(api.watchers), "the server sends events")
    await until(lambda: not len(api.watchers), "the server stops sending")
    await until(client.is_disconnected, "the server ends the connection")
    client.close()


@pytest.mark.parametrize("headers", [JSON_PAGE, JSON_PAGE + b"connection: close\r\n"])
async def test_a_client_that_does_not_read_a_response_is_disconnected(
    address: str, api: ApiHarness, anna: Caller, headers: bytes
) -> None:
    job = await anna.submit(GENERATION)
    await api.store.database.execute(MANY_EVENTS, decode_job_id(job), 500, 20_000)
    request = stream_request(anna, job).replace(b"accept: text/event-stream\r\n", headers)
    client = await StalledClient.to(address, request)
    await until(client.is_disconnected, "the server ends the connection")
    client.close()


async def test_a_disconnected_reader_resumes_without_loss(
    api: ApiHarness, address: str, anna: Caller, job: str
) -> None:
    client = await StalledClient.to(address, stream_request(anna, job))
    await until(client.is_disconnected, "the server ends the connection")
    client.close()
    await anna.post(f"/api/v1/jobs/{job}/cancel")
    known = EVENTS - 100
    stream = await StalledClient.to(address, stream_request(anna, job, known))
    socket = await StalledClient.to(address, socket_request(anna, job, known))
    by_stream = received_by_stream(await stream.read_until(STREAM_IS_OVER))
    by_socket = received_by_socket(await socket.read_until(*SOCKET_IS_OVER))
    assert by_stream.numbers == by_socket.numbers == list(range(known + 1, EVENTS + 3))
    assert (by_stream.last[1]["reason"], by_socket.last[1]) == ("job_over", "the job has ended")


async def test_a_stopping_server_ends_streams_with_a_reason(
    api: ApiHarness, address: str, anna: Caller
) -> None:
    job = await anna.submit(GENERATION)
    stream = await StalledClient.to(address, stream_request(anna, job))
    socket = await StalledClient.to(address, socket_request(anna, job))
    await until(lambda: len(api.watchers) == 2, "both are watching")
    await api.watchers.stop()
    received = received_by_stream(await stream.read_until(STREAM_IS_OVER))
    assert (received.last[0], received.last[1]["reason"]) == ("STREAM_END", "server_stopping")
    received = received_by_socket(await socket.read_until(*SOCKET_IS_OVER))
    assert received.last[0] == "1012"
