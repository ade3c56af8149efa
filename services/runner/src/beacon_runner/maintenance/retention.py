"""Removes what is past its retention, in bounded steps."""

from collections.abc import Callable
from dataclasses import dataclass

from beacon_config.retention import RetentionConfig
from beacon_lifecycle import RunResult
from beacon_runner.domain.jobs.retention import Removal, is_expired, kept_s
from beacon_runner.ports.retention import RetentionStore


@dataclass(frozen=True, slots=True)
class Retention:
    store: RetentionStore
    config: Callable[[], RetentionConfig]
    batch: int = 1_000

    async def run_once(self) -> RunResult:
        removed, more, config = 0, False, self.config()
        for removal in Removal:
            found = await self.store.find(removal, kept_s(removal, config), self.batch)
            expired = [job for job in found if is_expired(removal, job, config)]
            count = await self.store.remove(removal, expired) if expired else 0
            removed += count
            more = more or (count > 0 and len(found) == self.batch)
        return RunResult(removed, more=more)
