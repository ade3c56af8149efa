"""Follows a job's events to its end over lost connections and restarts, without gaps or repeats."""

import asyncio
import json
from collections.abc import AsyncGenerator

from httpx_sse import EventSource
from pydantic import ValidationError

from beacon_client.errors import BeaconError, BeaconUnreachable
from beacon_client.runner_http import RunnerHttp, Sleep
from beacon_contracts.events import EventType, JobEvent

STREAM_END = "STREAM_END"
JOB_OVER = "job_over"
FINAL = frozenset(
    {
        EventType.JOB_COMPLETE,
        EventType.JOB_PARTIAL,
        EventType.JOB_FAILED,
        EventType.JOB_CANCELLED,
        EventType.JOB_EXPIRED,
    }
)
# A resumed job has events after its first end; a replay sends them without delay.
LINGER_S = 0.5
MIN_PAUSE_S = 0.2
MAX_PAUSE_S = 5.0
MAX_FAILURES = 12


class _JobOverError(Exception):
    """The server has sent every event of the job."""


async def watch(http: RunnerHttp, path: str, *, after: int, sleep: Sleep) -> AsyncGenerator[JobEvent]:
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
            if failures >= MAX_FAILURES or not _is_transient(error):
                raise
        finally:
            await stream.aclose()
        if ended:
            return
        await sleep(min(MIN_PAUSE_S * 2.0**failures, MAX_PAUSE_S))


async def _next(stream: AsyncGenerator[JobEvent], within_s: float | None) -> JobEvent | None:
    """The next event; None at the end of the stream or after `within_s` without an event."""
    try:
        async with asyncio.timeout(within_s):
            return await anext(stream, None)
    except TimeoutError:
        return None


async def _events(http: RunnerHttp, path: str, after: int) -> AsyncGenerator[JobEvent]:
    headers = {"accept": "text/event-stream", "last-event-id": str(after), "cache-control": "no-store"}
    async with http.stream(path, headers) as response:
        async for sent in EventSource(response).aiter_sse():
            if sent.event == STREAM_END:
                _handle_stream_end(sent.data)
                return
            try:
                yield JobEvent.model_validate_json(sent.data)
            except ValidationError:
                continue  # an event type of a later version


def _handle_stream_end(data: str) -> None:
    """A stream that ended for another reason than the job's end is opened again."""
    try:
        reason = json.loads(data)["reason"]
    except (ValueError, KeyError, TypeError):
        return
    if reason == JOB_OVER:
        raise _JobOverError


def _is_transient(error: BeaconError) -> bool:
    return isinstance(error, BeaconUnreachable) or error.status >= 500 or error.status == 429
