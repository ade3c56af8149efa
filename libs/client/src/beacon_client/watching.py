"""Follows a job's events to its end, over lost connections and restarts: no gap, no repeats."""

import asyncio
from collections.abc import AsyncGenerator

import orjson
from pydantic import ValidationError

from beacon_client.errors import BeaconError, BeaconUnreachable
from beacon_client.runner_http import RunnerHttp
from beacon_client.server_events import EventLines
from beacon_contracts.events import EventType, JobEvent
from beacon_lifecycle.clock import Clock

STREAM_END = "STREAM_END"
JOB_OVER = "job_over"
FINAL = frozenset(
    {EventType.JOB_COMPLETE, EventType.JOB_PARTIAL, EventType.JOB_FAILED, EventType.JOB_CANCELLED}
)
# A job that was resumed has events after its first end; a replay sends them at once.
LINGER_S = 0.5
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
FAILURES_IN_A_ROW = 12


class _JobOverError(Exception):
    """The server has told all there is to tell."""


async def watch(http: RunnerHttp, path: str, *, after: int, clock: Clock) -> AsyncGenerator[JobEvent]:
    """Each event after the number `after`, once and in order, until the job has ended."""
    last, failures = after, 0
    while True:
        ended = False
        stream = _events(http, path, last)
        try:
            while (event := await _next(stream, LINGER_S if ended else None)) is not None:
                failures = 0
                if event.seq > last:
                    last = event.seq
                    yield event
                ended = event.type in FINAL
        except _JobOverError:
            return
        except BeaconError as error:
            failures += 1
            if failures >= FAILURES_IN_A_ROW or not _passing(error):
                raise
        finally:
            await stream.aclose()
        if ended:
            return
        await clock.sleep(min(FIRST_PAUSE_S * 2.0**failures, LONGEST_PAUSE_S))


async def _next(stream: AsyncGenerator[JobEvent], within_s: float | None) -> JobEvent | None:
    """The next event; none when the stream is over or stays silent for `within_s`."""
    try:
        async with asyncio.timeout(within_s):
            return await anext(stream, None)
    except TimeoutError:
        return None


async def _events(http: RunnerHttp, path: str, after: int) -> AsyncGenerator[JobEvent]:
    headers = {"accept": "text/event-stream", "last-event-id": str(after), "cache-control": "no-store"}
    async with http.stream(path, headers) as response:
        lines = EventLines()
        async for line in response.aiter_lines():
            complete = lines.take(line)
            if complete is None:
                continue
            if complete.name == STREAM_END:
                _take_farewell(complete.data)
                return
            try:
                yield JobEvent.model_validate_json(complete.data)
            except ValidationError:
                continue  # a kind of a later version


def _take_farewell(data: str) -> None:
    """A stream that ended for another reason than the job's end goes on elsewhere, or a little later."""
    try:
        reason = orjson.loads(data)["reason"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return
    if reason == JOB_OVER:
        raise _JobOverError


def _passing(error: BeaconError) -> bool:
    return isinstance(error, BeaconUnreachable) or error.status >= 500 or error.status == 429
