"""A streamed answer on its way from the backend to a client, no faster than the client reads."""

import asyncio
from collections import deque

_PIECES_AHEAD = 64


class StreamSink:
    """One writer, the run, and one reader, the client's connection."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._ended = False
        self.begun = False
        """Set with the first piece: from then on the answer cannot be started over elsewhere."""

    async def write(self, piece: bytes) -> None:
        self.begun = True
        self._pieces.append(piece)
        self._readable.set()
        if len(self._pieces) >= _PIECES_AHEAD:
            self._writable.clear()
            await self._writable.wait()

    def end(self) -> None:
        """The inference is over, however it went: the reader gets what is left, then None."""
        self._ended = True
        self._readable.set()

    async def read(self) -> bytes | None:
        while not self._pieces:
            if self._ended:
                return None
            self._readable.clear()
            await self._readable.wait()
        piece = self._pieces.popleft()
        if len(self._pieces) < _PIECES_AHEAD:
            self._writable.set()
        return piece
