"""Records of files."""

from collections.abc import Sequence
from typing import Any

from beacon_contracts.ids import FileId, UserId
from beacon_runner.domain.errors import StorageLimitError, UnknownFileError, UserNotFoundError
from beacon_runner.domain.files import FileRecord, Upload
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

_SQL = statements("files")


class PostgresFiles:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, file: Upload, *, expires_in_s: float, storage_bytes: int | None) -> FileRecord:
        """Record an uploaded file; raises `StorageLimitError` if the user would exceed `storage_bytes`."""
        async with self._database.transaction() as connection:
            if await connection.fetchval(_SQL["lock_owner"], file.user) is None:
                raise UserNotFoundError
            if storage_bytes is not None:
                used = await connection.fetchval(_SQL["used_bytes"], file.user)
                if used + file.size > storage_bytes:
                    raise StorageLimitError(storage_bytes, used)
            row = await connection.fetchrow(
                _SQL["add_file"],
                file.id,
                file.user,
                file.name,
                file.content_type,
                file.size,
                bytes.fromhex(file.sha256),
                expires_in_s,
            )
            return _record(row)

    async def get(self, file: FileId, owner: UserId | None) -> FileRecord:
        row = await self._database.fetchrow(_SQL["file"], file, owner)
        if row is None:
            raise UnknownFileError
        return _record(row)

    async def page(self, owner: UserId, before: FileId | None, limit: int) -> list[FileRecord]:
        return [_record(row) for row in await self._database.fetch(_SQL["files_page"], owner, before, limit)]

    async def remove(self, files: Sequence[FileId]) -> None:
        await self._database.execute(_SQL["remove_files"], list(files))

    async def used_bytes(self, user: UserId) -> int:
        return int(await self._database.fetchval(_SQL["used_bytes"], user))

    async def expired(self, limit: int) -> list[FileRecord]:
        return [_record(row) for row in await self._database.fetch(_SQL["expired_files"], limit)]

    async def unknown(self, files: Sequence[FileId]) -> list[FileId]:
        rows = await self._database.fetch(_SQL["unknown_files"], list(files))
        return [FileId(row["id"]) for row in rows]

    async def url_secret(self) -> bytes:
        return bytes(await self._database.fetchval(_SQL["url_secret"]))


def _record(row: Any) -> FileRecord:
    return FileRecord(
        FileId(row["id"]),
        UserId(row["user_id"]),
        row["name"],
        row["content_type"],
        row["size"],
        row["sha256"].hex(),
        row["created_at"],
        row["expires_at"],
    )
