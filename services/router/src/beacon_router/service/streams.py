"""A streamed answer on its way from the backend to a client, no faster than the client reads."""

import asyncio
from collections import deque
from collections.abc import Callable

from beacon_router.backends.types import Source

_BYTES_AHEAD = 262_144


class StreamSink:
    """One source, the backend's connection, and one reader, the client's."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._readable = asyncio.Event()
        self._source: Source | None = None
        self._ended = False
        self.begun = False
        """Set with the first piece: from then on the answer cannot be started over elsewhere."""
        self.held_back = False
        """Set when the source first had to wait for the reader: how long it takes is not its doing then."""
        self._paused = False
        self._told: Callable[[bool], None] = lambda _: None

    def on_hold(self, told: Callable[[bool], None]) -> None:
        """Call `told` when the source begins to wait and at each read then; false: it goes on."""
        self._told = told

    def opened(self, source: Source) -> None:
        self._source = source

    def feed(self, piece: bytes) -> None:
        self.begun = True
        self._pieces.append(piece)
        self._bytes += len(piece)
        self._readable.set()
        if self._bytes > _BYTES_AHEAD and self._source is not None:
            self._source.pause()
            if not self._paused:
                self.held_back = self._paused = True
                self._told(True)

    def end(self) -> None:
        """The inference is over, however it went: the reader gets what is left, then None."""
        self._ended = True
        self._source = None
        self._paused = False
        self._readable.set()

    async def read(self) -> bytes | None:
        while not self._pieces:
            if self._ended:
                return None
            self._readable.clear()
            await self._readable.wait()
        piece = self._pieces.popleft()
        self._bytes -= len(piece)
        if self._bytes <= _BYTES_AHEAD and self._source is not None:
            self._source.resume()
        if self._paused:
            self._paused = self._bytes > _BYTES_AHEAD
            self._told(self._paused)
        return piece
