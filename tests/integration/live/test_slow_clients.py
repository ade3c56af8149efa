"""A client that does not read is dropped with a reason, costs little, and can come back without loss."""

import pytest

from beacon_contracts.ids import decode_job_id
from beacon_runner.http import stream_protocols as wire
from tests.fixtures.waiting import PATIENCE_S, until
from tests.integration.live.stalled import (
    SOCKET_IS_OVER,
    STREAM_IS_OVER,
    StalledClient,
    socket_request,
    stream_request,
    told_by_socket,
    told_by_stream,
)
from tests.integration.runner_api.bed import GENERATION, ApiBed, Caller
from tests.integration.runner_store.statements import MANY_EVENTS

EVENTS = 3_000
LETTERS = 1_000


@pytest.fixture
async def job(api: ApiBed, anna: Caller) -> str:
    """A job that waits and has three megabytes to tell."""
    job = await anna.submit(GENERATION)
    await api.store.database.execute(MANY_EVENTS, decode_job_id(job), EVENTS, LETTERS)
    return job


async def dropped(api: ApiBed, client: StalledClient) -> StalledClient:
    """The client, once the server has given it up."""
    await until(lambda: len(api.watchers), "the server begins to tell")
    await until(lambda: not len(api.watchers), "the server drops a client that reads nothing")
    return client


async def finish(anna: Caller, job: str) -> None:
    await anna.post(f"/api/v1/jobs/{job}/cancel")


async def test_a_stream_that_nobody_reads_ends_with_a_reason_and_goes_on_without_loss(
    api: ApiBed, address: str, anna: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "LAST_WORDS_S", PATIENCE_S)
    client = await dropped(api, await StalledClient.to(address, stream_request(anna, job)))
    told = told_by_stream(await client.read_until(STREAM_IS_OVER))
    assert (told.last[0], told.last[1]["reason"]) == ("STREAM_END", "too_slow")
    assert len(told.numbers) < EVENTS / 2

    await finish(anna, job)
    numbers = told.numbers
    while told.last[1]["reason"] != "job_over":  # a machine may be too slow even for one that reads
        again = await StalledClient.to(address, stream_request(anna, job, numbers[-1]))
        told = told_by_stream(await again.read_until(STREAM_IS_OVER))
        numbers += told.numbers
    assert numbers == list(range(1, EVENTS + 3))


async def test_a_socket_that_nobody_reads_closes_with_a_reason_and_goes_on_without_loss(
    api: ApiBed, address: str, anna: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "LAST_WORDS_S", PATIENCE_S)
    client = await dropped(api, await StalledClient.to(address, socket_request(anna, job)))
    told = told_by_socket(await client.read_until(*SOCKET_IS_OVER))
    assert told.last[0] == "1013"
    assert told.last[1].startswith("too slow")
    assert len(told.numbers) < EVENTS / 2

    await finish(anna, job)
    numbers = told.numbers
    while told.last != ("1000", "the job is over"):
        again = await StalledClient.to(address, socket_request(anna, job, numbers[-1]))
        told = told_by_socket(await again.read_until(*SOCKET_IS_OVER))
        numbers += told.numbers
    assert numbers == list(range(1, EVENTS + 3))


async def test_who_never_reads_again_is_cut_off(
    api: ApiBed, address: str, anna: Caller, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing in good order would wait for it, and keep what it has not read."""
    monkeypatch.setattr(wire, "LAST_WORDS_S", 0.05)
    for request in (stream_request(anna, job), socket_request(anna, job)):
        client = await dropped(api, await StalledClient.to(address, request))
        await until(client.is_cut, "the server cuts the connection")
        client.close()


async def test_a_server_that_stops_says_so_to_everybody(api: ApiBed, address: str, anna: Caller) -> None:
    job = await anna.submit(GENERATION)
    stream = await StalledClient.to(address, stream_request(anna, job))
    socket = await StalledClient.to(address, socket_request(anna, job))
    await until(lambda: len(api.watchers) == 2, "both are watching")
    await api.watchers.stop()
    told = told_by_stream(await stream.read_until(STREAM_IS_OVER))
    assert (told.last[0], told.last[1]["reason"]) == ("STREAM_END", "server_stopping")
    told = told_by_socket(await socket.read_until(*SOCKET_IS_OVER))
    assert told.last[0] == "1012"
