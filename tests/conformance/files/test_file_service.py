"""Upload, archive and clean-up on both kinds of store."""

import io
import zipfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest

from beacon_config import LiveConfig, parse_document
from beacon_contracts.accounts import Scope
from beacon_contracts.api_keys import new_api_key
from beacon_contracts.files import output_object_name
from beacon_contracts.ids import FileId, new_uuid
from beacon_files import FileStore
from beacon_lifecycle import ManualClock
from beacon_runner.application.files import FileService
from beacon_runner.domain.accounts.users import Principal
from beacon_runner.domain.errors import FileStoreUnavailableError
from beacon_runner.domain.files.files import FileRecord
from beacon_runner.maintenance.file_cleanup import OWNER_OBJECT, FileCleanup
from beacon_runner.postgres.accounts.users import PostgresUsers
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.files import PostgresFiles

CONFIG = LiveConfig(
    parse_document({"backends": {"gpu": {"dialect": "modal", "url": "http://gpu", "models": ["m"]}}}, {})
)
SIZES = (1, 300_000, 5_500_000)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, size=2)
    await database.open()
    yield database
    await database.close()


async def principal(database: Database) -> Principal:
    users, key = PostgresUsers(database), new_api_key()
    await users.add("anna", "admin", key, [Scope.USER])
    found = await users.principal(sha256(key.encode()).digest())
    assert found is not None
    return found


async def chunks(size: int) -> AsyncIterator[bytes]:
    for start in range(0, size, 100_000):
        yield bytes(start % 251 for _ in range(min(100_000, size - start)))


async def names(store: FileStore) -> set[str]:
    folders = ("uploads", "outputs", "beacon")
    return {one.name for folder in folders async for batch in store.list(folder) for one in batch}


async def test_an_archive_has_every_byte_of_every_file(store: FileStore, database: Database) -> None:
    clock = ManualClock(datetime.now(UTC))
    files = FileService(PostgresFiles(database), store, CONFIG, clock)
    user = await principal(database)
    records = [await files.upload(user, "a.bin", chunks(size)) for size in SIZES]

    async def named() -> AsyncIterator[tuple[str, FileRecord]]:
        for number, record in enumerate(records):
            yield f"{number}.bin", record

    pieces = [piece async for piece in files.archive(named())]
    assert max(map(len, pieces)) <= 1_048_576
    archive = zipfile.ZipFile(io.BytesIO(b"".join(pieces)))
    assert archive.testzip() is None
    for number, size in enumerate(SIZES):
        data = archive.read(f"{number}.bin")
        assert (len(data), sha256(data).hexdigest()) == (size, records[number].sha256)


async def test_orphans_are_removed_by_the_database_that_owns_the_store(
    store: FileStore, database: Database
) -> None:
    clock = ManualClock(datetime.now(UTC))
    cleanup = FileCleanup(PostgresFiles(database), store, clock, orphans_every_s=-1)
    assert (await cleanup.run_once()).count == 0
    files = FileService(PostgresFiles(database), store, CONFIG, clock)
    kept = await files.upload(await principal(database), "a.bin", chunks(10))
    orphan = output_object_name(FileId(new_uuid()))
    await store.put(orphan, chunks(10), max_bytes=10)
    assert (await cleanup.run_once()).count == 0
    await clock.advance(timedelta(days=2).total_seconds())
    assert (await cleanup.run_once()).count == 1
    assert await names(store) == {kept.object_name, OWNER_OBJECT}
    await store.put(OWNER_OBJECT, chunks(10), max_bytes=10)  # as of another database
    await store.put(orphan, chunks(10), max_bytes=10)
    await clock.advance(timedelta(days=2).total_seconds())
    assert (await cleanup.run_once()).count == 0
    assert orphan in await names(store)


async def test_lost_bytes_end_an_archive_with_an_error(store: FileStore, database: Database) -> None:
    clock = ManualClock(datetime.now(UTC))
    files = FileService(PostgresFiles(database), store, CONFIG, clock)
    record = await files.upload(await principal(database), "a.bin", chunks(10))
    await store.delete([record.object_name])

    async def named() -> AsyncIterator[tuple[str, FileRecord]]:
        yield "a.bin", record

    with pytest.raises(FileStoreUnavailableError):
        _ = [piece async for piece in files.archive(named())]
