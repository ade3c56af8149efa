"""Files over the runner's API: transfers are streamed, so that size does not matter."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from beacon_client.runner_http import RunnerHttp
from beacon_contracts.files import FilePage, FileUrl, FileView

FILES = "/api/v1/files"
PIECE_BYTES = 262_144


class FileClient:
    """The files of the key's user."""

    def __init__(self, http: RunnerHttp) -> None:
        self._http = http

    async def upload(self, path: Path, *, name: str | None = None) -> FileView:
        """Send a local file; it is deleted after a day unless something uses it."""
        headers = {"content-type": "application/octet-stream", "x-file-name": quote(name or path.name)}
        with await asyncio.to_thread(path.open, "rb") as source:
            answer = await self._http.post(FILES, _pieces(source), headers=headers)
        return FileView.model_validate_json(answer)

    async def list(self) -> AsyncGenerator[FileView]:
        """The user's files, newest first; pages are fetched on demand."""
        cursor: str | None = None
        while True:
            page = FilePage.model_validate_json(await self._http.get(FILES, {"cursor": cursor}))
            for file in page.files:
                yield file
            cursor = page.next_cursor
            if cursor is None:
                return

    async def get(self, file_id: str) -> FileView:
        """Name, type, size and checksum of a file."""
        return FileView.model_validate_json(await self._http.get(_path(file_id)))

    async def download(self, file_id: str, target: Path) -> int:
        """Write the bytes to `target` and return their number. An incomplete file is not left behind."""
        return await self._save(f"{_path(file_id)}/content", target)

    async def download_all(self, job_id: str, target: Path) -> int:
        """Write all files that a job has made to the ZIP `target`, and return its size."""
        return await self._save(f"/api/v1/jobs/{quote(job_id, safe='')}/files.zip", target)

    async def _save(self, path: str, target: Path) -> int:
        partial = target.with_name(f"{target.name}.part")
        size = 0
        try:
            with await asyncio.to_thread(partial.open, "wb") as sink:
                async with self._http.stream(path, {"accept": "*/*"}) as response:
                    async for piece in response.aiter_bytes():
                        size += await asyncio.to_thread(sink.write, piece)
            await asyncio.to_thread(partial.replace, target)
        finally:
            await asyncio.to_thread(partial.unlink, missing_ok=True)
        return size

    async def url(self, file_id: str) -> FileUrl:
        """The path of an address that works without a key for a few minutes."""
        return FileUrl.model_validate_json(await self._http.post(f"{_path(file_id)}/url"))

    async def delete(self, file_id: str) -> None:
        """Delete the file."""
        await self._http.delete(_path(file_id))


async def _pieces(source: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(source.read, PIECE_BYTES):
        yield piece


def _path(file_id: str) -> str:
    return f"{FILES}/{quote(file_id, safe='')}"
