"""A WebSocket that sends a job's events; its close code gives the reason of the end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.websockets import WebSocket, WebSocketDisconnect

from beacon_contracts.ids import JobId
from beacon_runner.domain.jobs.records import EventRecord
from beacon_runner.http.events.stream_end import JOB_OVER, SERVER_STOPPING, StreamEnd, stream_end_of
from beacon_runner.http.problems import EXPECTED_ERRORS
from beacon_runner.http.views import event_view
from beacon_runner.ports.events import JobWatch


class EventSocket:
    """Sends until the job has ended or the client disconnects."""

    def __init__(self, socket: WebSocket, job: JobId, watch: JobWatch) -> None:
        self._socket = socket
        self._job = job
        self._watch = watch

    async def serve(self, followed: AsyncGenerator[EventRecord | None]) -> None:
        sending = asyncio.ensure_future(self._send_until_end(followed))
        disconnected = asyncio.ensure_future(self._until_disconnect())
        try:
            await asyncio.wait({sending, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in (sending, disconnected):
                one.cancel()
            await asyncio.gather(sending, disconnected, return_exceptions=True)

    async def _send_until_end(self, followed: AsyncGenerator[EventRecord | None]) -> None:
        try:
            end = await self._send_all(followed)
            await self._socket.close(end.close_code, end.close_reason)
        except WebSocketDisconnect:
            return

    async def _send_all(self, followed: AsyncGenerator[EventRecord | None]) -> StreamEnd:
        try:
            async with aclosing(followed) as events:
                async for event in events:
                    if event is not None:
                        await self._socket.send_text(event_view(self._job, event).model_dump_json())
        except EXPECTED_ERRORS as error:
            return stream_end_of(error)
        return SERVER_STOPPING if self._watch.closed else JOB_OVER

    async def _until_disconnect(self) -> None:
        """Messages from the client are ignored; a disconnect ends the stream."""
        while (await self._socket.receive())["type"] != "websocket.disconnect":
            pass
