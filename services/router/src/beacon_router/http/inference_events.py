"""`POST /inference` with `Accept: text/event-stream`: states while it waits, what the backend sends, the end.

`event: state` has the InferenceView, `event: data` a part of the backend's own response (the parts joined are
its body, unchanged), `event: end` the final InferenceView. The inference ends with the connection.
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

STATE_EVERY_S = 2.0
MEDIA_TYPE = "text/event-stream"


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
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if not self._inference.done:
                self._dispatch.cancel(self._inference.id)

    async def _events(self) -> AsyncGenerator[bytes]:
        inference, sink = self._inference, self._sink
        yield self._view(b"state")
        while not self._responds:
            await self._change()
            if not self._responds:
                yield self._view(b"state")
        if sink is not None:
            while (piece := await sink.read()) is not None:
                yield _data(piece)
        elif inference.response is not None:
            yield _data(inference.response)
        yield self._view(b"end")

    @property
    def _responds(self) -> bool:
        """It has ended, or its stream has begun."""
        return self._inference.done or (self._sink is not None and self._sink.begun)

    async def _change(self) -> None:
        """Until it responds or the next state is due."""
        if self._sink is None:
            await self._dispatch.waiter(self._inference, STATE_EVERY_S)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(STATE_EVERY_S):
                await self._sink.readable()

    def _view(self, event: bytes) -> bytes:
        return b"event: %s\ndata: %s\n\n" % (event, self._answers.render(self._inference, response=False))


def _data(piece: bytes) -> bytes:
    return b"event: data\ndata: %s\n\n" % piece.replace(b"\n", b"\ndata: ")
