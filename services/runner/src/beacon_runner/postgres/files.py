"""Records of files."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beacon_contracts.audit import AuditAction
from beacon_contracts.files import OutputFile
from beacon_contracts.ids import FILE, FileId, JobId, UserId, decode_id, encode_id
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.errors import (
    FileInUseError,
    StorageLimitError,
    UnknownFileError,
    UserNotFoundError,
)
from beacon_runner.domain.execution.stage_result import ClaimedJob
from beacon_runner.domain.files.files import FileRecord, OutputPlace, Upload, display_name
from beacon_runner.postgres.accounts.audit import add_entry
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("files")
_ORPHANS = "file_orphans"


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
            return file_record(row)

    async def get(self, file: FileId, owner: UserId | None) -> FileRecord:
        row = await self._database.fetchrow(_SQL["file"], file, owner)
        if row is None:
            raise UnknownFileError
        return file_record(row)

    async def page(self, owner: UserId, before: FileId | None, limit: int) -> list[FileRecord]:
        rows = await self._database.fetch(_SQL["files_page"], owner, before, limit)
        return [file_record(row) for row in rows]

    async def outputs_of(self, job: JobId, after: OutputPlace, limit: int) -> list[FileRecord]:
        rows = await self._database.fetch(_SQL["outputs_of_job"], job, *after, limit)
        return [file_record(row) for row in rows]

    async def remove(self, file: FileId, owner: UserId | None, *, by: Actor | None = None) -> FileRecord:
        """The lock precedes the check: a submission that names the file waits, or is counted."""
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(_SQL["lock_file"], file, owner)
            if row is None:
                raise UnknownFileError
            job = await connection.fetchval(_SQL["live_job_of_file"], file)
            if job is not None:
                raise FileInUseError(JobId(job))
            await connection.execute(_SQL["unlink_file"], file)
            await connection.execute(_SQL["remove_files"], [file])
            record = file_record(row)
            if by is not None and by.user != record.user:
                await add_entry(connection, by, AuditAction.FILE_DELETED, encode_id(FILE, file), {})
        return record

    async def remove_expired(self, limit: int) -> list[FileRecord]:
        async with self._database.transaction() as connection:
            rows = await connection.fetch(_SQL["take_expired"], limit)
            await connection.execute(_SQL["remove_files"], [row["id"] for row in rows])
        return [file_record(row) for row in rows]

    async def used_bytes(self, user: UserId) -> int:
        return int(await self._database.fetchval(_SQL["used_bytes"], user))

    async def unknown(self, files: Sequence[FileId]) -> list[FileId]:
        rows = await self._database.fetch(_SQL["unknown_files"], list(files))
        return [FileId(row["id"]) for row in rows]

    async def start_orphan_search(self, every_s: float) -> int | None:
        counted: int | None = await self._database.fetchval(_SQL["start_run"], _ORPHANS, every_s)
        return counted

    async def count_orphan_search(self, number: int) -> None:
        await self._database.execute(_SQL["count_run"], _ORPHANS, number)

    async def url_secret(self) -> bytes:
        return bytes(await self._database.fetchval(_SQL["url_secret"]))


async def lock_usable_files(connection: "Connection", files: Sequence[FileId]) -> Mapping[FileId, UserId]:
    """The owners of those files that exist and have not expired; they stay so until the commit."""
    rows = await connection.fetch(_SQL["lock_usable"], list(files))
    return {FileId(row["id"]): UserId(row["user_id"]) for row in rows}


async def link_files(connection: "Connection", links: Sequence[tuple[JobId, FileId]]) -> None:
    await connection.execute(_SQL["link_files"], [job for job, _ in links], [file for _, file in links])


async def add_outputs(
    connection: "Connection", outputs: Sequence[tuple[ClaimedJob, int, OutputFile]]
) -> None:
    """Record the files that executions, given by job and ordinal, have made."""
    rows = [
        (
            decode_id(FILE, file.id),
            job.user,
            job.id,
            job.stage,
            ordinal,
            display_name(file.name),
            file.content_type,
            file.bytes,
            bytes.fromhex(file.sha256),
        )
        for job, ordinal, file in outputs
    ]
    await connection.execute(_SQL["add_outputs"], *map(list, zip(*rows, strict=True)))


def file_record(row: Any) -> FileRecord:
    return FileRecord(
        FileId(row["id"]),
        UserId(row["user_id"]),
        row["name"],
        row["content_type"],
        row["size"],
        row["sha256"].hex(),
        row["created_at"],
        row["expires_at"],
        row["job_id"],
        row["stage"],
        row["ordinal"],
    )
