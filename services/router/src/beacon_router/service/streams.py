"""Buffers a streamed response between the backend and a client that may read more slowly."""

import asyncio
from collections.abc import Callable

MAX_BUFFERED_BYTES = 262_144
PIECE_OVERHEAD_BYTES = 64  # of a bytes object and its place in the buffer


class StreamSink:
    """One writer (the run) and one reader (the client)."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
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
        """Called with true when the writer begins to wait, and with false when it continues."""
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

    def wake(self) -> None:
        """Let a waiting `read` return without data."""
        self._readable.set()

    async def read(self) -> bytes | None:
        """All that was written since the last read; empty after `wake`; None at the end."""
        if not (self._pieces or self._ended):
            self._readable.clear()
            await self._readable.wait()
        if not self._pieces:
            return None if self._ended else b""
        pieces, self._pieces, self._bytes = self._pieces, [], 0
        if not self._writable.is_set():
            self._writable.set()
            self._on_stall(False)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
