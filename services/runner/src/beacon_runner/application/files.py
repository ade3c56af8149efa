"""Files of users: upload, download, deletion."""

import zlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from typing import Any

import structlog
from stream_zip import ZIP_64, AsyncMemberFile, async_stream_zip

from beacon_config import LiveConfig
from beacon_contracts.ids import FileId, UserId, new_uuid
from beacon_files import FileStore, FileStoreError, FileTooLargeError
from beacon_lifecycle import Clock
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.accounts.users import Principal
from beacon_runner.domain.errors import (
    FileStoreUnavailableError,
    StorageLimitError,
    UnknownFileError,
    UploadTooLargeError,
)
from beacon_runner.domain.files.archive_names import ArchiveNames
from beacon_runner.domain.files.files import (
    BEFORE_OUTPUTS,
    FileRecord,
    OutputPlace,
    Upload,
    display_name,
    file_target,
    is_signed,
    object_name,
    signed_path,
)
from beacon_runner.domain.jobs.records import JobRecord
from beacon_runner.ports.files import FileRecords

READ_BYTES = 262_144
OUTPUTS_PAGE = 500

log = structlog.get_logger(__name__)


class _Arrival:
    """The bytes of one upload. Those that arrive at the same time share what is left of the user's storage.

    In one process: the transaction that records a file checks the limit once more.
    """

    def __init__(self, arriving: Counter[UserId], user: UserId, limit: int | None, used: int) -> None:
        self._arriving = arriving
        self._user = user
        self._limit = limit
        self._used = used
        self._size = 0

    async def passed(self, chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
        """The chunks, until they exceed the storage."""
        self._count(0)
        async for chunk in chunks:
            self._count(len(chunk))
            yield chunk

    def end(self) -> None:
        self._arriving[self._user] -= self._size
        if not self._arriving[self._user]:
            del self._arriving[self._user]

    def _count(self, size: int) -> None:
        self._size += size
        self._arriving[self._user] += size
        if self._limit is not None and self._used + self._arriving[self._user] > self._limit:
            raise StorageLimitError(self._limit, self._used)


class FileService:
    def __init__(
        self,
        records: FileRecords,
        store: FileStore,
        live: LiveConfig,
        clock: Clock,
    ) -> None:
        self._records = records
        self._store = store
        self._live = live
        self._clock = clock
        self._url_secret: bytes | None = None
        self._arriving: Counter[UserId] = Counter()
        """The bytes that unfinished uploads of each user have sent to this process."""

    async def upload(self, principal: Principal, name: str, chunks: AsyncIterable[bytes]) -> FileRecord:
        """Store the bytes, then record the file. Bytes without a record are removed by `FileCleanup`."""
        config = self._live.current
        storage_bytes = config.tiers[config.known_tier(principal.tier)].storage_bytes
        user, file, shown = principal.user, FileId(new_uuid()), display_name(name)
        arrival = _Arrival(self._arriving, user, storage_bytes, await self._records.used_bytes(user))
        try:
            with _store_errors():
                stored = await self._store.put(
                    object_name(user, file),
                    arrival.passed(chunks),
                    max_bytes=config.files.max_bytes,
                    file_name=lambda _: shown,
                )
        except FileTooLargeError as error:
            raise UploadTooLargeError(config.files.max_bytes) from error
        finally:
            arrival.end()
        done = Upload(file, user, shown, stored.content_type, stored.size, stored.sha256)
        try:
            return await self._records.add(
                done, expires_in_s=config.files.upload_retention_s, storage_bytes=storage_bytes
            )
        except StorageLimitError:  # other uploads of this user were recorded meanwhile
            await self._remove_bytes(done)
            raise

    async def get(self, file: FileId, owner: UserId | None) -> FileRecord:
        return await self._records.get(file, owner)

    async def page(self, owner: UserId, before: FileId | None, limit: int) -> Sequence[FileRecord]:
        return await self._records.page(owner, before, limit)

    async def outputs_of(self, job: JobRecord) -> AsyncGenerator[tuple[str, FileRecord]]:
        """The files that the job made, each with its name in an archive."""
        names, after = ArchiveNames(job.spec), BEFORE_OUTPUTS
        while page := await self._records.outputs_of(job.id, after, OUTPUTS_PAGE):
            for record in page:
                after = OutputPlace(record.stage or 0, record.ordinal or 0, record.id)
                yield names.of(after, record.name), record

    async def content(self, record: FileRecord, start: int, end: int) -> AsyncGenerator[bytes]:
        """The bytes from `start` up to `end`."""
        with _store_errors():
            async for chunk in self._store.get(record.object_name, start=start, end=end):
                yield chunk

    async def archive(self, outputs: AsyncIterable[tuple[str, FileRecord]]) -> AsyncGenerator[bytes]:
        """A ZIP of named files in bounded memory; an unavailable file store ends it early."""
        pieces = async_stream_zip(
            self._members(outputs), chunk_size=READ_BYTES, get_compressobj=_uncompressed
        )
        async for piece in pieces:
            yield piece

    async def _members(
        self, outputs: AsyncIterable[tuple[str, FileRecord]]
    ) -> AsyncGenerator[AsyncMemberFile]:
        async for name, record in outputs:
            content = self.content(record, 0, record.size)
            first = await anext(content, b"")  # an unavailable store is found before the file begins
            yield name, record.created_at, 0o644, ZIP_64, joined(first, content)

    async def delete(self, file: FileId, owner: UserId | None, *, by: Actor | None = None) -> FileRecord:
        """The record first: a crash in between leaves bytes that `FileCleanup` removes."""
        record = await self._records.remove(file, owner, by=by)
        await self._remove_bytes(record)
        return record

    async def store_url(self, record: FileRecord) -> str | None:
        """An address at the file store itself; None if it has none."""
        with _store_errors():
            return await self._store.signed_url(
                record.object_name, expires_s=self._live.current.files.url_expires_s
            )

    async def signed_path(self, target: str) -> tuple[str, datetime]:
        """A path that works without a key, and until when. `target`: of a file or of an archive."""
        expires_unix = int(self._clock.wall().timestamp()) + self._live.current.files.url_expires_s
        path = signed_path(await self._secret(), target, expires_unix)
        return path, datetime.fromtimestamp(expires_unix, UTC)

    async def signed(self, file: FileId, expires_unix: int, signature: str) -> FileRecord:
        """The file of a signed address."""
        await self.check_signed(file_target(file), expires_unix, signature)
        return await self._records.get(file, None)

    async def check_signed(self, target: str, expires_unix: int, signature: str) -> None:
        """Raises `UnknownFileError` if the address has expired or is not ours."""
        now_unix = self._clock.wall().timestamp()
        if not is_signed(await self._secret(), target, expires_unix, signature, now_unix=now_unix):
            raise UnknownFileError

    async def _secret(self) -> bytes:
        if self._url_secret is None:
            self._url_secret = await self._records.url_secret()
        return self._url_secret

    async def _remove_bytes(self, file: Upload) -> None:
        try:
            await self._store.delete([file.object_name])
        except FileStoreError as error:  # removed later by `FileCleanup`
            log.warning("file_delete_failed", file=str(file.id), error=str(error))


async def joined(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The chunks of which the first one was read already."""
    async with aclosing(rest):
        yield first
        async for chunk in rest:
            yield chunk


def _uncompressed() -> Any:
    """Images, sound and video are compressed already."""
    return zlib.compressobj(level=0, wbits=-zlib.MAX_WBITS)


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except FileTooLargeError:
        raise
    except FileStoreError as error:
        log.warning("file_store_failed", reason=str(error))
        raise FileStoreUnavailableError(str(error)) from error
