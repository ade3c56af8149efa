"""A streamed answer on its way from the backend to a client, no faster than the client reads."""

import asyncio

_PIECES_AHEAD = 64


class StreamSink:
    """One writer, the run, and one reader, the client's connection. None marks the end."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(_PIECES_AHEAD)
        self.begun = False
        """Set with the first piece: from then on the answer cannot be started over elsewhere."""

    async def write(self, piece: bytes) -> None:
        self.begun = True
        await self._pieces.put(piece)

    async def end(self) -> None:
        await self._pieces.put(None)

    async def read(self) -> bytes | None:
        return await self._pieces.get()
