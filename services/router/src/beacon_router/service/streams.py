"""Buffers a streamed response between the backend and a client that may read more slowly."""

import asyncio
from collections import deque
from collections.abc import Callable

MAX_BUFFERED_BYTES = 262_144
PIECE_OVERHEAD_BYTES = 64  # of a bytes object and its place in the buffer


class StreamSink:
    """One writer (the run) and one reader (the client)."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = False
        self._on_stall: Callable[[bool], None] = lambda _: None
        self.begun = False
        """A piece was written: the inference cannot be retried any more."""
        self.was_stalled = False
        """The writer had to wait for the reader at least once."""

    def on_stall(self, callback: Callable[[bool], None]) -> None:
        """Called with true while the writer waits, at each read again; with false when it continues."""
        self._on_stall = callback

    async def write(self, piece: bytes) -> None:
        """Add a piece; waits until the reader has made room."""
        self.begun = True
        self._pieces.append(piece)
        self._bytes += len(piece) + PIECE_OVERHEAD_BYTES
        self._readable.set()
        if self._bytes > MAX_BUFFERED_BYTES:
            self.was_stalled = True
            self._writable.clear()
            self._on_stall(True)
            await self._writable.wait()

    def end(self) -> None:
        """The inference has ended: the reader gets the rest, then None."""
        self._ended = True
        self._on_stall = lambda _: None
        self._readable.set()

    async def read(self) -> bytes | None:
        while not self._pieces:
            if self._ended:
                return None
            self._readable.clear()
            await self._readable.wait()
        piece = self._pieces.popleft()
        self._bytes -= len(piece) + PIECE_OVERHEAD_BYTES
        if not self._writable.is_set():
            stalled = self._bytes > MAX_BUFFERED_BYTES
            if not stalled:
                self._writable.set()
            self._on_stall(stalled)
        return piece
