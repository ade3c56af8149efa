"""The records of files."""

from collections.abc import Sequence
from typing import Protocol

from beacon_contracts.ids import FileId, JobId, UserId
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.files.files import FileRecord, OutputPlace, Upload


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

    async def outputs_of(self, job: JobId, after: OutputPlace, limit: int) -> Sequence[FileRecord]:
        """The files that a job made, in the order of its executions."""
        ...

    async def remove(self, file: FileId, owner: UserId | None, *, by: Actor | None = ...) -> FileRecord:
        """Delete a record; raises `UnknownFileError`, or `FileInUseError` while a live job needs the file.

        `by`: recorded in the audit log if it is not the file's user.
        """
        ...

    async def used_bytes(self, user: UserId) -> int: ...

    async def remove_expired(self, limit: int) -> Sequence[FileRecord]:
        """Delete the records of files that have expired, oldest first; returns them."""
        ...

    async def unknown(self, files: Sequence[FileId]) -> Sequence[FileId]:
        """Those that have no record."""
        ...

    async def start_orphan_search(self, every_s: float) -> int | None:
        """The number of the last search if this process searches now: one process in so many seconds does."""
        ...

    async def count_orphan_search(self, number: int) -> None:
        """The number of the search that deletes orphans now."""
        ...

    async def url_secret(self) -> bytes:
        """The key with which addresses of files are signed; all processes share it."""
        ...
