"""Downloads that continue after a lost connection or an interrupted process, and are verified."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from beacon_client.errors import BeaconError, BeaconUnreachable
from beacon_client.runner_http import MAX_TRIES, RunnerHttp
from beacon_contracts.files import content_path
from beacon_contracts.problem import Problem

READ_BYTES = 1_048_576
PARTIAL_CONTENT = 206

Progress = Callable[[int, int | None], None]
"""Called with the bytes transferred so far and their total, if that is known."""


class DamagedFileError(BeaconError):
    """The downloaded bytes do not have the checksum of the file."""

    def __init__(self, file_id: str) -> None:
        detail = f"the bytes of {file_id} differ from its checksum; they were discarded"
        super().__init__(Problem(title="Damaged file", status=0, code="checksum_mismatch", detail=detail))


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """The download of a file to `target`, verified by its size and checksum.

    The bytes arrive in `<target>.part`, which replaces the target once its checksum is right.
    """

    file_id: str
    target: Path
    size: int
    checksum: str
    progress: Progress | None = None

    @property
    def partial(self) -> Path:
        """Where the bytes are until they are complete."""
        return self.target.with_name(f"{self.target.name}.part")

    async def run(self, http: RunnerHttp) -> bool:
        """False if the target has these bytes already."""
        if await asyncio.to_thread(self._is_complete, self.target):
            self._report(self.size)
            return False
        continued = await asyncio.to_thread(_size, self.partial) > 0
        await self._fetch(http)
        if continued and not await asyncio.to_thread(self._is_complete, self.partial):
            await asyncio.to_thread(self.partial.unlink)  # it was part of another file
            await self._fetch(http)
        if not await asyncio.to_thread(self._is_complete, self.partial):
            await asyncio.to_thread(self.partial.unlink)
            raise DamagedFileError(self.file_id)
        await asyncio.to_thread(self.partial.replace, self.target)
        return True

    async def _fetch(self, http: RunnerHttp) -> None:
        """Until all bytes have arrived; gives up after some attempts in a row without any."""
        tries = 0
        while True:
            start = await asyncio.to_thread(_size, self.partial)
            try:
                await self._continue(http, start if start <= self.size else 0)
            except BeaconUnreachable:
                arrived = await asyncio.to_thread(_size, self.partial) > start
                tries = 1 if arrived else tries + 1
                if tries == MAX_TRIES:
                    raise
                await http.pause(tries)
            else:
                return

    async def _continue(self, http: RunnerHttp, start: int) -> None:
        """Append the bytes from `start`."""
        self._report(start)
        if start == self.size > 0:
            return
        headers = {"accept": "*/*", **({"range": f"bytes={start}-"} if start else {})}
        async with http.stream(content_path(quote(self.file_id, safe="")), headers) as response:
            done = start if response.status_code == PARTIAL_CONTENT else 0
            with await asyncio.to_thread(self.partial.open, "ab" if done else "wb") as sink:
                async for piece in response.aiter_bytes():
                    await asyncio.to_thread(sink.write, piece)
                    done += len(piece)
                    self._report(done)

    def _report(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, self.size)

    def _is_complete(self, path: Path) -> bool:
        if _size(path) != self.size or not path.is_file():
            return False
        digest = hashlib.sha256()
        with path.open("rb") as source:
            while piece := source.read(READ_BYTES):
                digest.update(piece)
        return digest.hexdigest() == self.checksum


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
