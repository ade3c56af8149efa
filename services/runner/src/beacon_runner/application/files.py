"""Files of users: upload, download, deletion."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import structlog

from beacon_config.limits import FilesConfig
from beacon_config.tiers import TierConfig
from beacon_contracts.ids import FileId, UserId, new_uuid
from beacon_contracts.tiers import Tier
from beacon_files import FileStore, FileStoreError, FileTooLargeError
from beacon_lifecycle import Clock
from beacon_runner.domain.errors import (
    FileStoreUnavailableError,
    StorageLimitError,
    UnknownFileError,
    UploadTooLargeError,
)
from beacon_runner.domain.files import FileRecord, Upload, display_name, is_signed, object_name, sign
from beacon_runner.domain.users import Principal
from beacon_runner.ports.files import FileRecords

log = structlog.get_logger(__name__)


class FileService:
    def __init__(
        self,
        records: FileRecords,
        store: FileStore,
        config: FilesConfig,
        tiers: Mapping[Tier, TierConfig],
        clock: Clock,
    ) -> None:
        self._records = records
        self._store = store
        self._config = config
        self._tiers = tiers
        self._clock = clock
        self._url_secret: bytes | None = None

    async def upload(self, principal: Principal, name: str, chunks: AsyncIterable[bytes]) -> FileRecord:
        """Store the bytes, then record the file. Bytes without a record are removed by `FileCleanup`."""
        storage_bytes = self._tiers[principal.tier].storage_bytes
        used = await self._records.used_bytes(principal.user)
        left = self._config.max_bytes if storage_bytes is None else storage_bytes - used
        if storage_bytes is not None and left <= 0:
            raise StorageLimitError(storage_bytes, used)
        file = FileId(new_uuid())
        target = object_name(principal.user, file)
        try:
            with _store_errors():
                stored = await self._store.put(target, chunks, max_bytes=min(left, self._config.max_bytes))
        except FileTooLargeError as error:
            if storage_bytes is not None and left < self._config.max_bytes:
                raise StorageLimitError(storage_bytes, used) from error
            raise UploadTooLargeError(self._config.max_bytes) from error
        done = Upload(
            file, principal.user, display_name(name), stored.content_type, stored.size, stored.sha256
        )
        try:
            return await self._records.add(
                done, expires_in_s=self._config.upload_retention_s, storage_bytes=storage_bytes
            )
        except StorageLimitError:  # another upload of this user was recorded meanwhile
            await self._remove_bytes(done)
            raise

    async def get(self, file: FileId, owner: UserId | None) -> FileRecord:
        return await self._records.get(file, owner)

    async def page(self, owner: UserId, before: FileId | None, limit: int) -> Sequence[FileRecord]:
        return await self._records.page(owner, before, limit)

    async def content(self, record: FileRecord, start: int, end: int) -> AsyncGenerator[bytes]:
        """The bytes from `start` up to `end`."""
        with _store_errors():
            async for chunk in self._store.get(record.object_name, start=start, end=end):
                yield chunk

    async def delete(self, file: FileId, owner: UserId | None) -> FileRecord:
        """The record first: a crash in between leaves bytes that `FileCleanup` removes."""
        record = await self._records.get(file, owner)
        await self._records.remove([record.id])
        await self._remove_bytes(record)
        return record

    async def store_url(self, record: FileRecord) -> str | None:
        """An address at the file store itself; None if it has none."""
        with _store_errors():
            return await self._store.signed_url(record.object_name, expires_s=self._config.url_expires_s)

    async def signed_query(self, record: FileRecord) -> tuple[int, str]:
        """The expiry (Unix time) and the signature of an address that works without a key."""
        expires_unix = int(self._clock.wall().timestamp()) + self._config.url_expires_s
        return expires_unix, sign(await self._secret(), record.id, expires_unix)

    async def signed(self, file: FileId, expires_unix: int, signature: str) -> FileRecord:
        """The file of a signed address; raises `UnknownFileError` if it has expired or is not ours."""
        now_unix = self._clock.wall().timestamp()
        if not is_signed(await self._secret(), file, expires_unix, signature, now_unix=now_unix):
            raise UnknownFileError
        return await self._records.get(file, None)

    async def _secret(self) -> bytes:
        if self._url_secret is None:
            self._url_secret = await self._records.url_secret()
        return self._url_secret

    async def _remove_bytes(self, file: Upload) -> None:
        try:
            await self._store.delete([file.object_name])
        except FileStoreError as error:  # removed later by `FileCleanup`
            log.warning("file_delete_failed", file=str(file.id), error=str(error))


def expiry_of(expires_unix: int) -> datetime:
    return datetime.fromtimestamp(expires_unix, UTC)


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except FileTooLargeError:
        raise
    except FileStoreError as error:
        raise FileStoreUnavailableError(str(error)) from error
