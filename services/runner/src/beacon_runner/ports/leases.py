"""The leases of one worker, for its heartbeat, which is a thread without an event loop."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from beacon_runner.domain.queue.messages import Message


@dataclass(frozen=True, slots=True)
class Renewal:
    """Ids of messages: `lost` to another worker, `restored` in Redis, `retaken` from their lane."""

    lost: Sequence[str]
    restored: Sequence[str]
    retaken: Sequence[str]


class LeaseRenewal(Protocol):
    """All methods block."""

    def renew(self, messages: Sequence[Message]) -> Renewal:
        """Renew these leases; without messages only check that Redis answers."""

    def ack(self, message_ids: Sequence[str]) -> None:
        """Remove messages that this worker has leased."""

    def nack(self, message_ids: Sequence[str]) -> None:
        """Return messages that this worker has leased to the front of their lane."""

    def close(self) -> None: ...
