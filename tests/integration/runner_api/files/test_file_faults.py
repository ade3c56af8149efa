"""Files stay accounted for when processes die: records, bytes and storage use agree."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random
from typing import Any

import pytest

from beacon_config import LiveConfig
from beacon_contracts.ids import encode_id
from beacon_files import FileStore, FileUnavailableError, ObjectInfo, StoredObject, open_store
from beacon_lifecycle import ManualClock
from beacon_runner.application.files import FileService
from beacon_runner.domain.accounts.users import Principal
from beacon_runner.domain.errors import (
    FileInUseError,
    FileStoreUnavailableError,
    StoreUnavailableError,
    UnknownFileError,
)
from beacon_runner.domain.files.files import FileRecord
from beacon_runner.maintenance.file_cleanup import ORPHAN_AGE, OWNER_OBJECT, FileCleanup
from beacon_runner.postgres.files import PostgresFiles, add_outputs
from beacon_runner.postgres.jobs import claims as claims_module
from tests.integration.runner_api.files.test_files import objects
from tests.integration.runner_api.files.test_job_files import delete_jobs, made, naming, report_with, used
from tests.integration.runner_api.harness import CONFIG, GENERATION, ApiHarness, Caller

KILL = "SELECT pg_terminate_backend(pg_backend_pid())"
OTHER_SECRET = "UPDATE secrets SET value = sha256(value)"


async def _bytes(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _chunks(size: int) -> AsyncIterator[bytes]:
    yield bytes(size)


@pytest.mark.parametrize("point", ["before the files", "after the files"])
async def test_a_connection_lost_while_recording_leaves_nothing(
    api: ApiHarness, anna: Caller, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    await anna.submit(GENERATION)
    (claimed,) = await api.claim()
    report = report_with(claimed, await made(api))

    async def dying(connection: Any, outputs: Any) -> None:
        if point == "after the files":
            await add_outputs(connection, outputs)
        await connection.execute(KILL)

    monkeypatch.setattr(claims_module, "add_outputs", dying)
    with pytest.raises(StoreUnavailableError):
        await api.store.claims.record([report])
    assert await used(anna) == 0
    assert (await api.store.job(claimed.id)).head.finished_at is None
    monkeypatch.setattr(claims_module, "add_outputs", add_outputs)
    assert await api.store.claims.record([report]) == {claimed.id}  # the worker repeats it
    assert await used(anna) == report.executions[0].files[0].bytes


class FlakyStore:
    """A file store that fails before or after one operation in five, until it is repaired."""

    def __init__(self, store: FileStore, random: Random) -> None:
        self._store = store
        self._random = random
        self.broken = True

    def _fail(self) -> None:
        if self.broken and self._random.random() < 0.1:
            raise FileUnavailableError("broken")

    async def put(self, name: str, chunks: Any, *, max_bytes: int, file_name: Any = None) -> StoredObject:
        self._fail()
        stored = await self._store.put(name, chunks, max_bytes=max_bytes, file_name=file_name)
        self._fail()
        return stored

    def get(self, name: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        return self._store.get(name, start=start, end=end)

    async def delete(self, names: Sequence[str]) -> None:
        self._fail()
        await self._store.delete(names)
        self._fail()

    def list(self, prefix: str) -> AsyncIterator[Sequence[ObjectInfo]]:
        return self._store.list(prefix)

    async def remove_incomplete(self, prefix: str, before: datetime) -> int:
        return await self._store.remove_incomplete(prefix, before)

    async def signed_url(self, name: str, *, expires_s: int) -> str | None:
        return await self._store.signed_url(name, expires_s=expires_s)


class Walk:
    """Random uses of files by one user, with a file store that fails."""

    def __init__(self, api: ApiHarness, anna: Caller, principal: Principal, seed: int) -> None:
        self.api, self.anna, self.principal, self.random = api, anna, principal, Random(seed)
        self.records = PostgresFiles(api.store.database)
        self.store = FlakyStore(open_store(api.files), self.random)
        self.clock = ManualClock(datetime.now(UTC))
        self.files = FileService(self.records, self.store, LiveConfig(CONFIG), self.clock)
        self.cleanup = FileCleanup(self.records, self.store, self.clock, orphans_every_s=-1)

    async def all(self) -> Sequence[FileRecord]:
        return await self.records.page(self.principal.user, None, 1_000)

    async def step(self) -> None:
        steps = [self.upload, self.delete, self.submit, self.run, self.run, self.retain, self.clean]
        with suppress(FileUnavailableError, FileStoreUnavailableError, FileInUseError, UnknownFileError):
            await self.random.choice(steps)()
        assert await used(self.anna) == sum(one.size for one in await self.all())

    async def upload(self) -> None:
        await self.files.upload(self.principal, "a", _chunks(self.random.randrange(1, 1_000)))

    async def delete(self) -> None:
        if found := await self.all():
            await self.files.delete(self.random.choice(found).id, self.principal.user)

    async def submit(self) -> None:
        if found := await self.all():
            body = naming(encode_id("file", self.random.choice(found).id))
            assert (await self.anna.http.post("/api/v1/jobs", json=body)).status_code in (202, 422)

    async def run(self) -> None:
        for claimed in await self.api.claim():
            output = await made(self.api, bytes(self.random.randrange(1, 1_000)))
            await made(self.api, b"of an attempt whose router died")
            await self.api.store.claims.record([report_with(claimed, output)])

    async def run_all(self) -> None:
        while claimed := await self.api.claim(20):
            for job in claimed:
                await self.api.store.claims.record([report_with(job, await made(self.api))])

    async def retain(self) -> None:
        await delete_jobs(self.api)

    async def clean(self) -> None:
        await self.cleanup.run_once()


@pytest.mark.parametrize("seed", range(3))
async def test_files_are_accounted_for_whatever_fails(api: ApiHarness, seed: int) -> None:
    key = await api.key("anna", "admin")
    anna = api.caller(key)
    principal = await api.users.principal(sha256(key.encode()).digest())
    assert principal is not None
    walk = Walk(api, anna, principal, seed)
    walk.store.broken = False
    await walk.clean()
    walk.store.broken = True
    for _ in range(100):
        await walk.step()
    walk.store.broken = False
    await walk.run_all()
    await walk.retain()
    await walk.clock.advance((ORPHAN_AGE + timedelta(hours=1)).total_seconds())
    await walk.clean()
    left = await walk.all()
    assert all(record.job is None and record.expires_at is not None for record in left)  # unused uploads
    known = {record.object_name for record in left}
    stored = {str(path.relative_to(api.files)) for path in objects(api)}
    assert stored == known | {OWNER_OBJECT}
    links = await api.store.database.fetchval(
        "SELECT count(*) FROM job_files l LEFT JOIN jobs j ON j.id = l.job_id WHERE j.id IS NULL"
    )
    assert links == 0


async def test_another_database_removes_nothing(api: ApiHarness, anna: Caller) -> None:
    store, clock = open_store(api.files), ManualClock(datetime.now(UTC))
    cleanup = FileCleanup(PostgresFiles(api.store.database), store, clock, orphans_every_s=-1)
    await cleanup.run_once()
    await made(api)
    await clock.advance(2 * ORPHAN_AGE.total_seconds())
    await api.store.database.execute(OTHER_SECRET)  # as another database
    assert (await cleanup.run_once()).count == 0
    await store.delete([OWNER_OBJECT])  # as a store of an earlier release
    assert (await cleanup.run_once()).count == 0
    assert len(objects(api)) == 1
    await store.delete([str(path.relative_to(api.files)) for path in objects(api)])
    await cleanup.run_once()
    await made(api)
    assert (await cleanup.run_once()).count == 1


async def test_one_process_in_an_hour_searches_for_orphans(api: ApiHarness) -> None:
    records = PostgresFiles(api.store.database)
    assert [await records.start_orphan_search(3_600.0) for _ in range(3)] == [0, None, None]


async def test_a_database_restored_from_a_backup_removes_nothing(api: ApiHarness, anna: Caller) -> None:
    store, clock = open_store(api.files), ManualClock(datetime.now(UTC))
    cleanup = FileCleanup(PostgresFiles(api.store.database), store, clock, orphans_every_s=-1)
    await cleanup.run_once()
    backup = "CREATE TABLE backup AS SELECT * FROM maintenance_runs"
    restore = "DELETE FROM maintenance_runs; INSERT INTO maintenance_runs SELECT * FROM backup"
    await api.store.database.execute(backup)
    await made(api)
    await cleanup.run_once()
    await clock.advance(2 * ORPHAN_AGE.total_seconds())
    for table in ("backup", "(SELECT * FROM backup WHERE false) AS none"):
        for statement in restore.replace("backup", table).split("; "):
            await api.store.database.execute(statement)
        for _ in range(3):
            assert (await cleanup.run_once()).count == 0
    owner = b"".join([chunk async for chunk in store.get(OWNER_OBJECT)]).split()[0]
    await store.put(OWNER_OBJECT, _bytes(owner), max_bytes=100)  # as an operator who has seen the error
    assert (await cleanup.run_once()).count == 1
