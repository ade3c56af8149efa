"""Removes what nobody asks for any more, in bounded steps."""

from dataclasses import dataclass

from beacon_config.bounds import RetentionConfig
from beacon_runner.domain.ports import Attic
from beacon_runner.loops.rounds import Round


@dataclass(frozen=True, slots=True)
class Janitor:
    attic: Attic
    retention: RetentionConfig
    batch: int = 1_000

    async def run_once(self) -> Round:
        swept = await self.attic.sweep(self.retention, self.batch)
        return Round(swept.events + swept.idempotency_keys + swept.jobs, more=swept.more)
