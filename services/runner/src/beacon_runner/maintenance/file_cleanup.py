"""Removes files that have expired, and objects of the file store that no record knows."""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from beacon_files import FileStore, ObjectNotFoundError
from beacon_lifecycle import Clock, RunResult
from beacon_runner.domain.files.files import FOLDERS, file_of_object
from beacon_runner.ports.files import FileRecords

log = structlog.get_logger(__name__)

# An object is older than its record: an upload or a run that has not ended must not lose its bytes.
ORPHAN_AGE = timedelta(days=1)
OWNER_OBJECT = "beacon/database"
"""The object that has the `StoreOwner`."""


class StoreOwner(NamedTuple):
    """The database whose records describe the store, and the number of its last search for orphans."""

    database: str
    search: int


@dataclass(frozen=True, slots=True)
class FileCleanup:
    """Records first: a crash in between leaves objects, which a later run finds as orphans.

    Orphans are removed only from a store that belongs to this database. To a new database, or to one that
    was configured by mistake, every object would look like an orphan. A store belongs to the first database
    that knows all of its objects; until then, and for any other database, nothing is removed. Database and
    store also count the searches: a database that was restored from a backup is behind the store, and
    objects that are newer than the backup are kept until an operator decides.
    """

    records: FileRecords
    store: FileStore
    clock: Clock
    batch: int = 1_000
    orphans_every_s: float = 3_600.0

    async def run_once(self) -> RunResult:
        expired = await self.records.remove_expired(self.batch)
        await self.store.delete([record.object_name for record in expired])
        orphans = 0
        last_search = await self.records.start_orphan_search(self.orphans_every_s)
        if last_search is not None and await self._owns_store(last_search):
            orphans = await self._remove_orphans(self.clock.wall() - ORPHAN_AGE)
        return RunResult(len(expired) + orphans, more=len(expired) == self.batch)

    async def _owns_store(self, last_search: int) -> bool:
        database = hashlib.sha256(await self.records.url_secret()).hexdigest()
        owner, reason = await self._owner(), None
        if owner is None:
            async for orphans in self._orphans(self.clock.wall() + ORPHAN_AGE):  # of any age
                reason = f"it has objects that this database does not know, as {orphans[0]}"
                break
        elif owner.database != database:
            reason = "it belongs to another database"
        elif owner.search > last_search:
            reason = "it is newer than this database, which was restored from a backup"
        if reason is not None:
            log.error(
                "file_orphans_kept",
                reason=f"the file store: {reason}",
                hint=f"if it is this database's own store, write {database} to the object {OWNER_OBJECT}",
            )
            return False
        search = last_search + 1
        await self.records.count_orphan_search(search)
        named = f"{database} {search}".encode()
        await self.store.put(OWNER_OBJECT, _once(named), max_bytes=len(named))
        return True

    async def _owner(self) -> StoreOwner | None:
        try:
            text = b"".join([chunk async for chunk in self.store.get(OWNER_OBJECT)]).decode(errors="replace")
        except ObjectNotFoundError:
            return None
        database, _, search = text.strip().partition(" ")
        return StoreOwner(database, int(search) if search.isdecimal() else 0)

    async def _remove_orphans(self, oldest_kept: datetime) -> int:
        removed = 0
        for folder in FOLDERS:
            removed += await self.store.remove_incomplete(folder, oldest_kept)
        async for orphans in self._orphans(oldest_kept):
            await self.store.delete(orphans)
            removed += len(orphans)
        return removed

    async def _orphans(self, oldest_kept: datetime) -> AsyncIterator[list[str]]:
        for folder in FOLDERS:
            async for batch in self.store.list(folder):
                old = {file_of_object(one.name): one.name for one in batch if one.modified_at < oldest_kept}
                unknown = await self.records.unknown([file for file in old if file is not None])
                if unknown:
                    yield [old[file] for file in unknown]


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
