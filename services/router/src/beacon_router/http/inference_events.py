"""`POST /inference` with `Accept: text/event-stream`: states while it waits, what the backend sends, the end.

`event: state` has the InferenceView, `event: data` a part of the backend's own response (the parts joined are
its body, unchanged), `event: end` the final InferenceView. Comments keep the connection of a silent response
alive. The inference ends with the connection, and its result is not kept.

All streams send their states at the same moments, so that one forecast serves all of them.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from beacon_http.disconnect import ended_on_disconnect
from beacon_router.http.presenter import InferencePresenter
from beacon_router.service.dispatch_service import DispatchService
from beacon_router.service.inference import Inference
from beacon_router.service.streams import StreamSink

STATE_EVERY_S = 2.0
MEDIA_TYPE = "text/event-stream"
KEEP_ALIVE = b": running\n\n"
_HEADERS = ((b"content-type", b"text/event-stream; charset=utf-8"),)


def accepts_events(scope: Scope) -> bool:
    return any(name == b"accept" and MEDIA_TYPE.encode() in value for name, value in scope["headers"])


class InferenceEvents:
    """A streamed response; it owns the inference, which is cancelled when the client disconnects."""

    def __init__(
        self, inference: Inference, dispatch: DispatchService, presenter: InferencePresenter
    ) -> None:
        self._inference = inference
        self._dispatch = dispatch
        self._presenter = presenter
        self._send: Send

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        self._send = send
        try:
            with suppress(ClientDisconnect):
                async with ended_on_disconnect(scope):
                    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                    await self._write(self._view(b"state"))
                    sink = self._inference.spec.sink
                    await (self._wait() if sink is None else self._pass_on(sink))
                    await self._write(self._view(b"end"), more=False)
        finally:
            self._dispatch.leave(self._inference)

    async def _wait(self) -> None:
        """Until the inference has ended, with its state now and then; then its complete response."""
        inference, loop = self._inference, asyncio.get_running_loop()
        while not inference.done:
            await self._dispatch.waiter(inference, next_state_at(loop.time()) - loop.time())
            if not inference.done:
                await self._write(self._view(b"state"))
        if inference.response is not None:
            await self._write(_data(inference.response))

    async def _pass_on(self, sink: StreamSink) -> None:
        """What the backend sends, and states until it begins."""
        with _StateTimer(sink.wake):
            while (piece := await sink.read()) is not None:
                if piece:
                    await self._write(_data(piece))
                else:
                    await self._write(KEEP_ALIVE if sink.begun else self._view(b"state"))

    async def _write(self, piece: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})

    def _view(self, event: bytes) -> bytes:
        return b"event: %s\ndata: %s\n\n" % (event, self._presenter.render(self._inference, response=False))


class _StateTimer:
    """Calls back whenever a state is due: one timer for many waits."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle

    def __enter__(self) -> None:
        self._timer = self._loop.call_at(next_state_at(self._loop.time()), self._fire)

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _fire(self) -> None:
        self._callback()
        self.__enter__()


def next_state_at(now: float) -> float:
    """A multiple of the interval: the same for all streams."""
    return (now // STATE_EVERY_S + 1) * STATE_EVERY_S


def _data(piece: bytes) -> bytes:
    return b"event: data\ndata: %s\n\n" % piece.replace(b"\n", b"\ndata: ")
