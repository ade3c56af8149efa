"""Adds the records of usage to the hourly sums."""

from dataclasses import dataclass

from beacon_lifecycle import RunResult
from beacon_runner.ports.usage import UsageRollUp


@dataclass(frozen=True, slots=True)
class UsageRollUpLoop:
    store: UsageRollUp
    batch: int = 5_000

    async def run_once(self) -> RunResult:
        count = await self.store.roll_up(self.batch)
        return RunResult(count, more=count == self.batch)
