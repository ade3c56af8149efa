"""A streamed chat response, over the events of its run."""

import asyncio
import weakref
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from starlette.types import Message

from beacon_contracts.ids import UserId, new_uuid
from beacon_contracts.inference import InferenceState, InferenceView
from beacon_http.connections import CONNECTION
from beacon_lifecycle import ManualClock
from beacon_runner.application.interactive import Responder
from beacon_runner.application.request_memory import RequestMemory
from beacon_runner.domain.limits.request_quota import RequestQuota, RequestUse, admitted
from beacon_runner.http.openai.chat_response import ChatResponse
from beacon_runner.ports.interactive import InteractiveEvent


async def streamed(events: Sequence[InteractiveEvent]) -> bytes:
    """The body that the client receives."""
    user, memory = UserId(new_uuid()), RequestMemory(10)

    async def run(responder: Responder) -> None:
        responder.admitted("chatcmpl-1", admitted(user, "chatcmpl-1", RequestQuota(), RequestUse()))
        for event in events:
            await responder.on_event(event)

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    body: list[bytes] = []

    async def send(message: Message) -> None:
        body.append(message.get("body", b""))

    clock = ManualClock(datetime.now(UTC))
    response = ChatResponse(run, memory.reserve(user, 5), clock, stream=True, include_usage=False)
    connection = SimpleNamespace(lost=False, on_lost=None)
    await response({"path": "/v1/chat/completions", CONNECTION: connection}, receive, send)
    assert memory.held_bytes == 0
    freed = weakref.ref(response)
    del response
    assert freed() is None, "it keeps itself alive until the garbage collector runs"
    return b"".join(body)


def view(state: InferenceState, output: object = None) -> InferenceView:
    return InferenceView(
        request_id="chatcmpl-1", state=state, model="m", requested_region="US", fence=1, output=output
    )


@pytest.mark.parametrize(
    "pieces",
    [
        [b'data: {"n":1}\n\ndata', b": [DONE]\n\n"],
        [b'data: {"n":1}\n\n', b"data: [DONE]\n\n", b": keep-alive\n\n"],
    ],
)
async def test_the_backends_stream_is_passed_on_unchanged(pieces: list[bytes]) -> None:
    body = await streamed([*pieces, view(InferenceState.COMPLETED)])
    assert body == b"".join(pieces)


async def test_a_result_without_a_stream_becomes_one() -> None:
    body = await streamed([view(InferenceState.QUEUED), view(InferenceState.COMPLETED, "Because.")])
    assert body.startswith(b": queued")
    assert b'"content":"Because."' in body
    assert body.endswith(b"data: [DONE]\n\n")


async def test_a_comment_of_a_waiting_stream_has_the_reason() -> None:
    queued = view(InferenceState.QUEUED)
    waiting = queued.model_copy(update={"position": 2, "waiting_for": "behind 1 of the requests for us-1"})
    body = await streamed([waiting, view(InferenceState.COMPLETED, "Because.")])
    assert body.startswith(b": queued position=2 waiting_for=behind 1 of the requests for us-1\n\n")
