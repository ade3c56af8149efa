"""The records of files."""

from collections.abc import Sequence
from typing import Protocol

from beacon_contracts.ids import FileId, UserId
from beacon_runner.domain.files import FileRecord, Upload


class FileRecords(Protocol):
    async def add(self, file: Upload, *, expires_in_s: float, storage_bytes: int | None) -> FileRecord:
        """Record an uploaded file; raises `StorageLimitError` if the user would exceed `storage_bytes`."""
        ...

    async def get(self, file: FileId, owner: UserId | None) -> FileRecord:
        """Raises `UnknownFileError`; `owner` None means any user's."""
        ...

    async def page(self, owner: UserId, before: FileId | None, limit: int) -> Sequence[FileRecord]:
        """Newest first."""
        ...

    async def remove(self, files: Sequence[FileId]) -> None: ...

    async def used_bytes(self, user: UserId) -> int: ...

    async def expired(self, limit: int) -> Sequence[FileRecord]:
        """Files past their `expires_at`, oldest first."""
        ...

    async def unknown(self, files: Sequence[FileId]) -> Sequence[FileId]:
        """Those that have no record."""
        ...

    async def url_secret(self) -> bytes:
        """The key with which addresses of files are signed; all processes share it."""
        ...
