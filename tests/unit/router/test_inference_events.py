"""The event stream of an inference whose response has begun."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from starlette.types import Message

from beacon_http.connections import CONNECTION
from beacon_router.http import inference_events
from beacon_router.http.inference_events import InferenceEvents
from beacon_router.http.presenter import InferencePresenter
from beacon_router.scheduling import RequestId
from beacon_router.service.dispatch_service import DispatchService
from beacon_router.service.inference import Inference, InferenceSpec
from beacon_router.service.streams import StreamSink
from beacon_runner.router_client.stream import EventDecoder

WAIT_TIMEOUT_S = 20.0


class _Presenter:
    def render(self, inference: Inference, *, response: bool) -> bytes:
        assert not response
        return b'{"request_id":"r","state":"running","model":"m","requested_region":"US","fence":0}'


class _Dispatch:
    def leave(self, inference: Inference) -> None:
        assert inference.done


async def test_a_silent_response_keeps_its_connection_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner takes a connection without any byte for a lost router."""
    monkeypatch.setattr(inference_events, "STATE_EVERY_S", 0.01)
    sink = StreamSink()
    inference = Inference(
        RequestId("r"), InferenceSpec(RequestId("r"), "m", "US", 0, b"{}", sink=sink), 2, 0, 0.0, False, 0.0
    )
    dispatch, presenter = cast("DispatchService", _Dispatch()), cast("InferencePresenter", _Presenter())
    sent: list[bytes] = []
    comments = asyncio.Event()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))
        if sum(piece.startswith(b":") for piece in sent) >= 2:
            comments.set()

    scope = {CONNECTION: SimpleNamespace(lost=False, on_lost=None)}
    await sink.write(b"data: one\n\n")
    response = asyncio.ensure_future(InferenceEvents(inference, dispatch, presenter)(scope, receive, send))
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        await comments.wait()
        await sink.write(b"data: two\n\n")
        inference.ended_at = 1.0
        inference.notify_waiters()
        await response

    events = list(EventDecoder().feed(b"".join(sent)))
    assert [one for one in events if isinstance(one, bytes)] == [b"data: one\n\n", b"data: two\n\n"]
