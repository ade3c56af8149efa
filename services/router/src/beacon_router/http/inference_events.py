"""`POST /inference` with `Accept: text/event-stream`: states while it waits, what the backend sends, the end.

`event: state` has the InferenceView, `event: data` a part of the backend's own response (the parts joined are
its body, unchanged), `event: end` the final InferenceView. Comments keep the connection of a silent response
alive. The inference ends with the connection.

All streams send their states at the same moments, so that one forecast serves all of them.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from beacon_http.disconnect import ended_on_disconnect
from beacon_router.http.inference_answers import InferenceAnswers
from beacon_router.service.dispatch_service import DispatchService
from beacon_router.service.inference import Inference
from beacon_router.service.streams import StreamSink

STATE_EVERY_S = 2.0
MEDIA_TYPE = "text/event-stream"
KEEP_ALIVE = b": running\n\n"


def accepts_events(scope: Scope) -> bool:
    return any(name == b"accept" and MEDIA_TYPE.encode() in value for name, value in scope["headers"])


class InferenceEvents(Response):
    """A streamed response; it owns the inference, which is cancelled when the client disconnects."""

    def __init__(self, inference: Inference, dispatch: DispatchService, answers: InferenceAnswers) -> None:
        super().__init__(media_type=MEDIA_TYPE, headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self._inference = inference
        self._sink = inference.spec.sink
        self._dispatch = dispatch
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        try:
            with suppress(ClientDisconnect):
                async with ended_on_disconnect(receive), aclosing(self._events()) as events:
                    await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                    async for event in events:
                        await send({"type": "http.response.body", "body": event, "more_body": True})
                    end = self._view(b"end")
                    await send({"type": "http.response.body", "body": end, "more_body": False})
        finally:
            if not self._inference.done:
                self._dispatch.cancel(self._inference.id)

    async def _events(self) -> AsyncGenerator[bytes]:
        """All but the end."""
        inference, sink = self._inference, self._sink
        yield self._view(b"state")
        while not self._responds:
            await self._change()
            if not self._responds:
                yield self._view(b"state")
        if sink is not None:
            while (piece := await self._next_piece(sink)) is not None:
                yield _data(piece) if piece else KEEP_ALIVE
        elif inference.response is not None:
            yield _data(inference.response)

    @property
    def _responds(self) -> bool:
        """It has ended, or its stream has begun."""
        return self._inference.done or (self._sink is not None and self._sink.begun)

    async def _change(self) -> None:
        """Until it responds or the next state is due."""
        if self._sink is None:
            loop = asyncio.get_running_loop()
            await self._dispatch.waiter(self._inference, next_state_at(loop.time()) - loop.time())
            return
        await _readable(self._sink)

    async def _next_piece(self, sink: StreamSink) -> bytes | None:
        """Empty while the backend sends nothing; None at the end."""
        return await sink.read() if await _readable(sink) else b""

    def _view(self, event: bytes) -> bytes:
        return b"event: %s\ndata: %s\n\n" % (event, self._answers.render(self._inference, response=False))


def next_state_at(now: float) -> float:
    """A multiple of the interval: the same for all streams."""
    return (now // STATE_EVERY_S + 1) * STATE_EVERY_S


async def _readable(sink: StreamSink) -> bool:
    """Whether there is something to read before the next event is due."""
    try:
        async with asyncio.timeout_at(next_state_at(asyncio.get_running_loop().time())):
            await sink.readable()
    except TimeoutError:
        return False
    return True


def _data(piece: bytes) -> bytes:
    return b"event: data\ndata: %s\n\n" % piece.replace(b"\n", b"\ndata: ")
