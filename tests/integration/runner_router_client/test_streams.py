"""Interactive requests over an event stream: time limits, and when another try is allowed."""

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest
from aiohttp import web

from beacon_contracts.inference import InferenceState, InferenceView
from beacon_runner.domain.inputs.encoded_request import encode_request
from beacon_runner.ports.interactive import InteractiveEvent, ResponseLost
from beacon_runner.router_client import RouterClient, RouterTimeouts
from tests.fixtures.waiting import within_timeout
from tests.integration.runner_router_client.router_stub import (
    Handler,
    RouterStub,
    cut,
    no_answer,
    router_stub,
    view_of,
)
from tests.integration.runner_router_client.test_router_client import request

REQUEST = request("chatcmpl-1")
LIMIT_S = 1.0
DATA = b"event: data\ndata: {}\n\n"


@pytest.fixture
async def router() -> AsyncIterator[RouterStub]:
    async with router_stub() as one:
        yield one


def event(kind: str, state: InferenceState) -> bytes:
    view = view_of(REQUEST.model_dump(mode="json")) | {"state": state}
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps(view))


QUEUED, END = event("state", InferenceState.QUEUED), event("end", InferenceState.COMPLETED)


def sending(*pieces: bytes, queued_s: float = 0.0) -> Handler:
    """These pieces, after states for that time, as a router sends them while a request is queued."""

    async def answer(given: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(given)
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + queued_s
        while loop.time() < ends_at:
            await response.write(QUEUED)
            await asyncio.sleep(LIMIT_S / 50)
        for piece in pieces:
            await response.write(piece)
        return response

    return answer


async def events_of(router: RouterStub) -> list[InteractiveEvent]:
    found: list[InteractiveEvent] = []

    async def note(event: InteractiveEvent) -> None:
        found.append(event)

    times = RouterTimeouts(exchange_s=LIMIT_S, max_tries=3)
    async with RouterClient([router.url], "t", timeouts=times) as client, within_timeout("the stream ends"):
        await client.stream(encode_request(REQUEST), note)
    return found


def states(events: list[InteractiveEvent]) -> set[str]:
    return {event.state for event in events if isinstance(event, InferenceView)}


async def test_a_request_may_be_queued_for_longer_than_the_limit_of_the_head(router: RouterStub) -> None:
    """Also one that is not streamed: the router sends the head of its response at once."""
    router.next_answers.append(sending(DATA, END, queued_s=1.5 * LIMIT_S))
    events = await events_of(router)
    assert states(events) == {"queued", "completed"}
    assert [event for event in events if isinstance(event, bytes)] == [b"{}"]
    assert router.calls == ["POST /inference"]


async def test_a_router_that_sends_no_head_is_given_up(router: RouterStub) -> None:
    router.next_answers += [no_answer, sending(DATA, END)]
    assert states(await events_of(router)) == {"completed"}
    assert router.calls == ["POST /inference"] * 2


async def test_a_request_is_sent_again_until_a_part_of_the_response_has_arrived(router: RouterStub) -> None:
    router.next_answers += [cut, sending(QUEUED), sending(DATA, END)]
    assert states(await events_of(router)) == {"queued", "completed"}
    router.next_answers += [sending(QUEUED, DATA), sending(DATA, END)]
    with pytest.raises(ResponseLost):
        await events_of(router)
