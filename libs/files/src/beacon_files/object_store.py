"""The file store over obstore: one implementation for a local directory, S3, GCS and Azure."""

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, LocalStore, ObjectStore, S3Store, from_url

from beacon_files.content_type import HEAD_BYTES, attachment, content_type_of
from beacon_files.errors import FileTooLargeError, FileUnavailableError, ObjectNotFoundError
from beacon_files.store import ObjectInfo, StoredObject

if TYPE_CHECKING:
    from obstore import Attributes, GetOptions
    from obstore.store import ClientConfig

PIECE_BYTES = 262_144  # of one write; also the size of a part of a local file
REMOTE_PART_BYTES = 5_242_880  # the smallest part that S3 accepts, but for the last one
READ_BYTES = 262_144
LIST_BATCH = 1_000
READ_TIMEOUT_S = 30.0
"""Longest time without a byte from an object store. A whole transfer has no limit: it may take hours."""
RETRY_TIMEOUT_S = 60.0
_VARIABLES = ("AWS_", "GOOGLE_", "AZURE_")
_CONNECTION = ("allow_http", "allow_invalid_certificates", "proxy_url", "root_certificate")
_STAGED = re.compile(r"#\d+$")
"""Name suffix of incomplete files in the local store of obstore; `list` omits these files."""


def open_store(url: str) -> "ObjectFileStore":
    """`url`: a directory, `file://…`, `s3://bucket/prefix`, `gs://…` or `az://…`. Opened at the first use.

    Credentials come from the usual variables of each provider (AWS_ACCESS_KEY_ID, …).
    """
    if urlsplit(url).scheme in ("", "file"):
        path = Path(url.removeprefix("file://")).absolute()
        open_it = partial(LocalStore, path, mkdir=True, automatic_cleanup=True)
        return ObjectFileStore(open_it, PIECE_BYTES, path)
    return ObjectFileStore(partial(_open_remote, url), REMOTE_PART_BYTES)


def _open_remote(url: str) -> ObjectStore:
    options: ClientConfig = {
        "timeout": timedelta(days=1),
        "read_timeout": timedelta(seconds=READ_TIMEOUT_S),
    }
    # Options that are given replace those that the driver reads from the environment.
    variables = [(name, prefix + name.upper()) for prefix in _VARIABLES for name in _CONNECTION]
    given = {name: os.environ[variable] for name, variable in variables if os.environ.get(variable)}
    options |= cast("ClientConfig", given)
    return from_url(
        url, client_options=options, retry_config={"retry_timeout": timedelta(seconds=RETRY_TIMEOUT_S)}
    )


class ObjectFileStore:
    """Implements `FileStore`."""

    def __init__(
        self, open_it: Callable[[], ObjectStore], part_bytes: int, folder: Path | None = None
    ) -> None:
        """`folder`: the directory of a local store."""
        self._open = open_it
        self._opened: ObjectStore | None = None
        self._part_bytes = part_bytes
        self._folder = folder

    @property
    def _store(self) -> ObjectStore:
        if self._opened is None:
            try:
                self._opened = self._open()
            except OSError as error:  # the directory cannot be created
                raise FileUnavailableError(_first_line(error)) from error
        return self._opened

    async def put(
        self,
        name: str,
        chunks: AsyncIterable[bytes],
        *,
        max_bytes: int,
        file_name: Callable[[str], str] | None = None,
    ) -> StoredObject:
        """Two parts in memory at most; an error, also of `chunks`, leaves nothing behind."""
        measured = _Measured(chunks, max_bytes)
        with _store_errors():
            try:
                await self._write(name, measured.pieces(), file_name)
            except OSError as error:
                if error is measured.error:
                    raise
                raise FileUnavailableError(_first_line(error)) from error  # the driver's writer raises these
        return measured.result()

    async def _write(
        self, name: str, pieces: AsyncIterator[bytes], file_name: Callable[[str], str] | None
    ) -> None:
        first = await anext(pieces, b"")
        attributes = _attributes(first, file_name) if self._folder is None else None
        if len(first) < PIECE_BYTES:
            await obstore.put_async(self._store, name, first, attributes=attributes, use_multipart=False)
            return
        async with obstore.open_writer_async(
            self._store, name, attributes=attributes, buffer_size=self._part_bytes, max_concurrency=1
        ) as writer:
            await writer.write(first)
            async for piece in pieces:
                await writer.write(piece)

    async def get(self, name: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        with _store_errors():
            if end is not None and end <= start:
                return
            options = _range(start, end)
            found = await obstore.get_async(self._store, name, options=options)
            async for chunk in found.stream(min_chunk_size=READ_BYTES):
                yield bytes(chunk)

    async def delete(self, names: Sequence[str]) -> None:
        for name in names:  # one by one: a batch ends at the first name that does not exist
            try:
                with _store_errors():
                    await obstore.delete_async(self._store, name)
            except ObjectNotFoundError:
                continue

    async def list(self, prefix: str) -> AsyncIterator[Sequence[ObjectInfo]]:
        with _store_errors():
            async for batch in obstore.list(self._store, prefix, chunk_size=LIST_BATCH):
                yield [ObjectInfo(one["path"], one["size"], one["last_modified"]) for one in batch]

    async def remove_incomplete(self, prefix: str, before: datetime) -> int:
        if self._folder is None:
            return 0
        try:
            return await asyncio.to_thread(_remove_staged, self._folder / prefix, before.timestamp())
        except OSError as error:
            raise FileUnavailableError(_first_line(error)) from error

    async def signed_url(self, name: str, *, expires_s: int) -> str | None:
        with _store_errors():
            if not isinstance(self._store, S3Store | GCSStore | AzureStore):
                return None
            return await obstore.sign_async(self._store, "GET", name, timedelta(seconds=expires_s))


def _attributes(first: bytes, file_name: Callable[[str], str] | None) -> "Attributes":
    """Headers with which the store serves the object, the same as those of Beacon's own API."""
    kind = content_type_of(first)
    disposition = "attachment" if file_name is None else attachment(file_name(kind))
    return {"Content-Type": kind, "Content-Disposition": disposition}


def _remove_staged(folder: Path, before_unix: float) -> int:
    removed = 0
    for path in folder.rglob("*#*"):
        with suppress(FileNotFoundError):  # completed or removed in the meantime
            if _STAGED.search(path.name) and path.stat().st_mtime < before_unix:
                path.unlink()
                removed += 1
    return removed


def _range(start: int, end: int | None) -> "GetOptions":
    if end is not None:
        return {"range": (start, end)}
    return {"range": {"offset": start}} if start else {}


class _Measured:
    """Counts, hashes and limits the chunks that pass through, and keeps the first bytes."""

    def __init__(self, chunks: AsyncIterable[bytes], max_bytes: int) -> None:
        self._chunks = chunks
        self._max_bytes = max_bytes
        self._size = 0
        self._hash = hashlib.sha256()
        self._head = b""
        self.error: OSError | None = None
        """The error that the caller's chunks raised."""

    async def pieces(self) -> AsyncIterator[bytes]:
        """Pieces of equal size, because each write has a fixed cost. The last one may be shorter."""
        buffer = bytearray()
        async for chunk in self._given():
            self._size += len(chunk)
            if self._size > self._max_bytes:
                raise FileTooLargeError(self._max_bytes)
            self._hash.update(chunk)
            self._head += chunk[: HEAD_BYTES - len(self._head)]
            buffer += chunk
            while len(buffer) >= PIECE_BYTES:
                yield bytes(buffer[:PIECE_BYTES])
                del buffer[:PIECE_BYTES]
        if buffer:
            yield bytes(buffer)

    async def _given(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks:
                yield chunk
        except OSError as error:
            self.error = error
            raise

    def result(self) -> StoredObject:
        return StoredObject(self._size, self._hash.hexdigest(), content_type_of(self._head))


@contextmanager
def _store_errors() -> Iterator[None]:
    """Translates errors of the driver. Errors of the caller's own chunks pass unchanged."""
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectNotFoundError(_first_line(error)) from error
    except BaseError as error:
        raise FileUnavailableError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    """The message of a driver's error; further lines are debug output."""
    return (str(error).splitlines() or [type(error).__name__])[0]
