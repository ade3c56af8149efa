"""Removes files that have expired, and objects of the file store that no record knows."""

from dataclasses import dataclass
from datetime import timedelta

from beacon_files import FileStore
from beacon_lifecycle import Clock, RunResult
from beacon_runner.domain.files import UPLOADS, file_of_object
from beacon_runner.ports.files import FileRecords

# An object is older than its record: an upload that still runs must not lose its bytes.
ORPHAN_AGE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class FileCleanup:
    """Records first: a crash in between leaves objects, which the next run finds as orphans."""

    records: FileRecords
    store: FileStore
    clock: Clock
    batch: int = 1_000

    async def run_once(self) -> RunResult:
        expired = await self.records.expired(self.batch)
        if expired:
            await self.records.remove([record.id for record in expired])
            await self.store.delete([record.object_name for record in expired])
        orphans = await self._remove_orphans()
        return RunResult(len(expired) + orphans, more=len(expired) == self.batch)

    async def _remove_orphans(self) -> int:
        oldest_kept = self.clock.wall() - ORPHAN_AGE
        removed = await self.store.remove_incomplete(UPLOADS, oldest_kept)
        async for batch in self.store.list(UPLOADS):
            old = {file_of_object(one.name): one.name for one in batch if one.modified_at < oldest_kept}
            old.pop(None, None)
            unknown = await self.records.unknown([file for file in old if file is not None])
            await self.store.delete([old[file] for file in unknown])
            removed += len(unknown)
        return removed
