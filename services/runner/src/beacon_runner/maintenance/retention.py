"""Deletes what is past its retention, in bounded steps."""

from dataclasses import dataclass

from beacon_config.limits import RetentionConfig
from beacon_lifecycle import RunResult
from beacon_runner.ports.retention import RetentionStore


@dataclass(frozen=True, slots=True)
class Retention:
    store: RetentionStore
    retention: RetentionConfig
    batch: int = 1_000

    async def run_once(self) -> RunResult:
        swept = await self.store.sweep(self.retention, self.batch)
        return RunResult(swept.events + swept.idempotency_keys + swept.jobs, more=swept.more)
