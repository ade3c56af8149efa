"""Answers of several JSON documents: lines of JSON (NDJSON), or server-sent events."""

from collections.abc import AsyncGenerator, AsyncIterator

EVENT_STREAM = "text/event-stream"
STREAM_TYPES = frozenset({EVENT_STREAM, "application/x-ndjson", "application/ndjson"})
"""Not application/jsonl: that is a file of lines, which is the result as a whole."""
_DATA = b"data:"


class DocumentStream:
    """One document after another, each in pieces; nothing but a piece is in memory."""

    def __init__(self, pieces: AsyncIterator[bytes], media_type: str) -> None:
        lines = _lines(pieces)
        self._parts = _data_of_events(lines) if media_type == EVENT_STREAM else lines

    async def next(self) -> AsyncIterator[bytes] | None:
        """The next document, which must be read to its end before the one after it; None: the end."""
        async for part in self._parts:
            if part is not None and part.strip():
                return self._rest(part)
        return None

    async def _rest(self, first: bytes) -> AsyncIterator[bytes]:
        yield first
        async for part in self._parts:
            if part is None:
                return
            yield part


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes | None]:
    """The parts of each line, then None."""
    async for piece in pieces:
        first, *others = piece.split(b"\n")
        if first:
            yield first
        for part in others:
            yield None
            if part:
                yield part


async def _data_of_events(lines: AsyncIterator[bytes | None]) -> AsyncGenerator[bytes | None]:
    """The data of each event, then None. Names, ids and comments are left out."""
    start: bytes | None = b""
    """Of a line whose field is not known yet."""
    is_data = False
    async for part in lines:
        if part is None:
            if start is not None and not start.strip():
                yield None
            elif is_data:
                yield b"\n"
            start, is_data = b"", False
        elif start is None:
            if is_data:
                yield part
        else:
            start += part
            if len(start) >= len(_DATA):
                is_data = start.startswith(_DATA)
                rest, start = start[len(_DATA) :], None
                if is_data and rest:
                    yield rest
