"""Wake-ups of streams of job events, and the tokens that open WebSockets."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from beacon_contracts.ids import JobId
from beacon_lifecycle import WakeEvent


class JobWatch(Protocol):
    """Notifications that a job has new events."""

    @property
    def closed(self) -> bool:
        """True when the process stops and streams end."""
        ...

    def watch(self, job: JobId) -> AbstractContextManager[WakeEvent]: ...


@dataclass(frozen=True, slots=True)
class WebSocketToken:
    text: str
    expires_in_s: int


class WebSocketTokenStore(Protocol):
    async def issue(self, key_hash: bytes, job: JobId) -> WebSocketToken:
        """A token that stands for the key, for one WebSocket to one job."""
        ...

    async def redeem(self, text: str, job: JobId) -> bytes | None:
        """The hash of the key, if the token is valid for this job; it cannot be used again."""
        ...
