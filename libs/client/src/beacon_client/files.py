"""Files over the runner's API. Transfers are streamed and use little memory whatever their size."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from beacon_client.downloads import Download, Progress
from beacon_client.runner_http import RunnerHttp
from beacon_contracts.files import FilePage, FileUrl, FileView, content_path

FILES = "/api/v1/files"
PIECE_BYTES = 262_144

UploadSource = Path | bytes | BinaryIO | AsyncIterable[bytes]


class FileClient:
    """The files of the key's user."""

    def __init__(self, http: RunnerHttp) -> None:
        self._http = http

    async def upload(
        self, source: UploadSource, *, name: str | None = None, progress: Progress | None = None
    ) -> FileView:
        """Store a local file, bytes or a stream; it is deleted after a day unless a job uses it."""
        headers = {"content-type": "application/octet-stream", "x-file-name": quote(name or _name_of(source))}
        size = await _size_of(source)
        if size is not None:
            headers["content-length"] = str(size)
        pieces = _reported(_pieces(source), size, progress)
        return FileView.model_validate_json(await self._http.post(FILES, pieces, headers=headers))

    async def list(self) -> AsyncGenerator[FileView]:
        """The user's files, newest first; pages are fetched on demand."""
        async for page in self._http.pages(FILES, FilePage.model_validate_json):
            for file in page.files:
                yield file

    async def get(self, file_id: str) -> FileView:
        """Name, type, size and checksum of a file."""
        return FileView.model_validate_json(await self._http.get(_path(file_id)))

    async def stream(self, file_id: str) -> AsyncGenerator[bytes]:
        """The bytes in pieces."""
        path = content_path(quote(file_id, safe=""))
        async with self._http.stream(path, {"accept": "*/*"}) as response:
            async for piece in response.aiter_bytes():
                yield piece

    async def download(self, file_id: str, target: Path, *, progress: Progress | None = None) -> int:
        """Write the bytes to `target` and return their number.

        A target that has these bytes already stays; an interrupted download continues where it ended.
        """
        file = await self.get(file_id)
        download = Download(
            file_id=file.id, target=target, size=file.bytes, checksum=file.sha256, progress=progress
        )
        await download.run(self._http)
        return file.bytes

    async def download_all(self, job_id: str, target: Path) -> int:
        """Write all files that a job has made to the ZIP `target`, and return its size."""
        path = f"/api/v1/jobs/{quote(job_id, safe='')}/files.zip"
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
        """A path with a signature, which works without a key for a few minutes."""
        return FileUrl.model_validate_json(await self._http.post(f"{_path(file_id)}/url"))

    async def delete(self, file_id: str) -> None:
        """Delete the file."""
        await self._http.delete(_path(file_id))


def _name_of(source: UploadSource) -> str:
    path = source if isinstance(source, Path) else getattr(source, "name", "")
    return Path(path).name if isinstance(path, str | Path) else ""


async def _size_of(source: UploadSource) -> int | None:
    if isinstance(source, bytes):
        return len(source)
    return (await asyncio.to_thread(source.stat)).st_size if isinstance(source, Path) else None


async def _pieces(source: UploadSource) -> AsyncIterator[bytes]:
    if isinstance(source, bytes):
        for start in range(0, len(source), PIECE_BYTES):
            yield source[start : start + PIECE_BYTES]
    elif isinstance(source, Path):
        with await asyncio.to_thread(source.open, "rb") as opened:
            while piece := await asyncio.to_thread(opened.read, PIECE_BYTES):
                yield piece
    elif isinstance(source, AsyncIterable):
        async for piece in source:
            yield piece
    else:
        while piece := await asyncio.to_thread(source.read, PIECE_BYTES):
            yield piece


async def _reported(
    pieces: AsyncIterator[bytes], size: int | None, progress: Progress | None
) -> AsyncIterator[bytes]:
    sent = 0
    async for piece in pieces:
        yield piece
        sent += len(piece)
        if progress is not None:
            progress(sent, size)


def _path(file_id: str) -> str:
    return f"{FILES}/{quote(file_id, safe='')}"
