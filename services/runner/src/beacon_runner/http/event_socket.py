"""A WebSocket that tells a job's events and says why it closes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.websockets import WebSocket, WebSocketDisconnect

from beacon_contracts.events import JobEvent
from beacon_runner.http.stream_end import OVER, STOPPING, TOLD, Ending, ending_of
from beacon_runner.redis_queue.watchers import Watchers


class EventSocket:
    """Sends until the job is over or the client is gone."""

    def __init__(self, socket: WebSocket, watchers: Watchers) -> None:
        self._socket = socket
        self._watchers = watchers

    async def serve(self, followed: AsyncGenerator[JobEvent | None]) -> None:
        sending = asyncio.ensure_future(self._tell(followed))
        gone = asyncio.ensure_future(self._until_gone())
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in (sending, gone):
                one.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)

    async def _tell(self, followed: AsyncGenerator[JobEvent | None]) -> None:
        try:
            ending = await self._send_all(followed)
            await self._socket.close(ending.close_code, ending.close_reason)
        except WebSocketDisconnect:
            return

    async def _send_all(self, followed: AsyncGenerator[JobEvent | None]) -> Ending:
        try:
            async with aclosing(followed) as events:
                async for event in events:
                    if event is not None:
                        await self._socket.send_text(event.model_dump_json())
        except TOLD as error:
            return ending_of(error)
        return STOPPING if self._watchers.closed else OVER

    async def _until_gone(self) -> None:
        """What the client says means nothing here; that it leaves does."""
        while (await self._socket.receive())["type"] != "websocket.disconnect":
            pass
