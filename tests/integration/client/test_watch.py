"""Watching a job over lost connections: every event once, in order, to the end."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from beacon_client import BeaconError, RunnerClient
from beacon_contracts.events import EventType, ExecutionProgress
from tests.fixtures.waiting import WAIT_TIMEOUT_S
from tests.integration.client.runner_stub import (
    RunnerStub,
    cut,
    event,
    page,
    problem,
    runner_stub,
    stream,
)
from tests.integration.client.test_runner_client import RecordedSleep

ROUTE = "GET /api/v1/jobs/job_a/events"


@pytest.fixture
async def runner() -> AsyncIterator[RunnerStub]:
    async with runner_stub() as one:
        yield one


@pytest.fixture
async def client(runner: RunnerStub) -> AsyncIterator[RunnerClient]:
    async with RunnerClient(runner.url, "secret", sleep=RecordedSleep()) as one:
        yield one


async def numbers(client: RunnerClient, after: int = 0) -> list[int]:
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        return [one.seq async for one in client.watch("job_a", after=after)]


async def test_events_arrive_in_order_until_the_last_one(runner: RunnerStub, client: RunnerClient) -> None:
    stay = asyncio.Event()
    runner.on(ROUTE, stream(event(1, "JOB_QUEUED", position=3), event(2, "JOB_COMPLETE"), stay=stay))
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        seen = [(one.seq, one.type, one.data) async for one in client.watch("job_a")]
    assert seen == [(1, EventType.JOB_QUEUED, {"position": 3}), (2, EventType.JOB_COMPLETE, {})]
    (call,) = runner.calls
    assert call.headers["accept"] == "text/event-stream"
    assert call.headers["last-event-id"] == "0"
    assert call.headers["authorization"] == "Bearer secret"
    stay.set()


async def test_the_progress_of_a_run_is_reported(runner: RunnerStub, client: RunnerClient) -> None:
    run = {"execution_id": "exe_a.0.0", "item": "q1", "model": "flux", "region": "US", "attempt": 1}
    first = run | {"percent": 45.0, "message": "step 9", "preview": "data:image/png;base64,AAAA"}
    second = run | {"message": "almost"}
    runner.on(
        ROUTE,
        stream(
            event(1, "EXECUTION_START"),
            event(2, "EXECUTION_PROGRESS", **first),
            event(3, "EXECUTION_PROGRESS", **second),
            event(4, "JOB_COMPLETE"),
        ),
    )
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        seen = [one.progress async for one in client.watch("job_a")]
    assert seen == [None, *map(ExecutionProgress.model_validate, (first, second)), None]


async def test_a_lost_connection_continues_after_the_last_event(
    runner: RunnerStub, client: RunnerClient
) -> None:
    runner.on(
        ROUTE,
        stream(event(1, "JOB_QUEUED"), event(2, "EXECUTION_START"), then_cut=True),
        cut,
        page(502, "Bad Gateway"),
        stream(event(2, "EXECUTION_START"), event(3, "EXECUTION_COMPLETE")),
        stream(event(4, "JOB_COMPLETE")),
    )
    assert await numbers(client) == [1, 2, 3, 4]
    assert [call.headers["last-event-id"] for call in runner.calls] == ["0", "2", "2", "2", "3"]


async def test_watching_can_begin_after_any_event(runner: RunnerStub, client: RunnerClient) -> None:
    runner.on(ROUTE, stream(event(6, "JOB_FAILED")))
    assert await numbers(client, after=5) == [6]
    assert runner.calls[0].headers["last-event-id"] == "5"


async def test_a_job_that_was_resumed_is_replayed_past_its_first_end(
    runner: RunnerStub, client: RunnerClient
) -> None:
    runner.on(
        ROUTE,
        stream(
            event(1, "JOB_QUEUED"), event(2, "JOB_FAILED"), event(3, "JOB_QUEUED"), event(4, "JOB_COMPLETE")
        ),
    )
    assert await numbers(client) == [1, 2, 3, 4]


async def test_heartbeats_and_unknown_events_are_ignored(runner: RunnerStub, client: RunnerClient) -> None:
    runner.on(
        ROUTE,
        stream(
            ": heartbeat\n\n",
            "retry: 100\n\n",
            "event: dropped\ndata: too slow\n\n",
            event(1, "JOB_TELEPORTED"),
            event(2, "JOB_CANCELLED"),
        ),
    )
    assert await numbers(client) == [2]


def stream_end(reason: str) -> str:
    return f'event: STREAM_END\ndata: {{"reason":"{reason}","message":"..."}}\n\n'


async def test_a_stream_that_the_server_ends_is_reopened_at_once(
    runner: RunnerStub, client: RunnerClient
) -> None:
    runner.on(
        ROUTE,
        stream(event(1, "JOB_QUEUED"), stream_end("server_stopping")),
        stream(event(2, "EXECUTION_START"), stream_end("too_slow")),
        stream("event: STREAM_END\ndata: nonsense\n\n"),
        stream(event(3, "JOB_COMPLETE"), stream_end("job_over")),
    )
    assert await numbers(client) == [1, 2, 3]
    assert [call.headers["last-event-id"] for call in runner.calls] == ["0", "1", "2", "2"]


async def test_watching_a_job_without_further_events_ends(runner: RunnerStub, client: RunnerClient) -> None:
    runner.on(ROUTE, stream(stream_end("job_over")))
    assert await numbers(client, after=9) == []
    assert len(runner.calls) == 1


async def test_an_event_can_arrive_in_pieces(runner: RunnerStub, client: RunnerClient) -> None:
    whole = event(1, "JOB_PARTIAL")
    runner.on(ROUTE, stream(*whole))
    assert await numbers(client) == [1]


async def test_an_unknown_job_is_reported_at_once(runner: RunnerStub, client: RunnerClient) -> None:
    runner.on(ROUTE, problem(404, "unknown_job", "there is no such job"))
    with pytest.raises(BeaconError, match="there is no such job"):
        await numbers(client)
    assert len(runner.calls) == 1


async def test_a_server_that_stays_unavailable_ends_the_watch(
    runner: RunnerStub, client: RunnerClient
) -> None:
    runner.on(ROUTE, cut)
    with pytest.raises(BeaconError, match="does not answer"):
        await numbers(client)
    assert len(runner.calls) <= 24
