"""Removes deliveries of webhooks that have ended and are past their retention."""

from collections.abc import Callable
from dataclasses import dataclass

from beacon_lifecycle import RunResult
from beacon_runner.ports.webhooks import DeliveryQueue


@dataclass(frozen=True, slots=True)
class WebhookRetention:
    queue: DeliveryQueue
    kept_s: Callable[[], float]
    batch: int = 1_000

    async def run_once(self) -> RunResult:
        return RunResult.limited(await self.queue.remove_ended(self.kept_s(), self.batch), self.batch)
