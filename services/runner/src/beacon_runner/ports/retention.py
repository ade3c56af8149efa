"""Removal of what is past its retention."""

from dataclasses import dataclass
from typing import Protocol

from beacon_config.limits import RetentionConfig


@dataclass(frozen=True, slots=True)
class Swept:
    """What one run removed; `more` when it stopped at its limit."""

    events: int
    idempotency_keys: int
    jobs: int
    more: bool


class RetentionStore(Protocol):
    async def sweep(self, retention: RetentionConfig, limit: int) -> Swept: ...
