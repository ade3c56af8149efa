"""A limit that several processes share.

A token holds a slot or waits in the limit's queue. Never more tokens hold a slot than the cap allows. A freed
slot is granted to the first token in the queue, and its owner is notified. A token that is not renewed within
the lease loses its slot or its place in the queue.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType, Protocol

Token = NewType("Token", str)


def new_token() -> Token:
    return Token(secrets.token_hex(8))


@dataclass(frozen=True, slots=True)
class SharedLimit:
    name: str
    cap: int


@dataclass(frozen=True, slots=True)
class TokenStatus:
    """The state of the tokens in a request; those in neither set have no slot and no place in the queue."""

    held: frozenset[Token]
    waiting: frozenset[Token]
    wanted: int
    """Tokens of other processes in the queue, and those beyond a cap that has shrunk."""
    recheck_in_s: float | None
    """When the next lease may end and the queue advance without an event; None: the queue is empty."""


class LimitEventKind(StrEnum):
    GRANTED = "granted"
    """These waiting tokens hold slots now."""
    WANTED = "wanted"
    """A token has joined the queue: idle slots should be released."""
    RENEW = "renew"
    """The limit's state may be incomplete: holders should renew now."""


@dataclass(frozen=True, slots=True)
class LimitEvent:
    kind: LimitEventKind
    tokens: frozenset[Token] = frozenset()


class SlotLimiter(Protocol):
    """All methods raise LimiterUnavailableError when the limit's state cannot be reached."""

    @property
    def lease_s(self) -> float: ...

    async def acquire(self, limit: SharedLimit, tokens: Sequence[Token]) -> TokenStatus:
        """A slot for each token, or a place in the queue. Idempotent."""
        ...

    async def renew(self, limit: SharedLimit, held: Sequence[Token], waiting: Sequence[Token]) -> TokenStatus:
        """Keep slots and places for another lease; lost slots are acquired again if there is room."""
        ...

    async def release(self, limit: SharedLimit, tokens: Sequence[Token]) -> int:
        """Release slots or leave the queue; returns how many were known. Idempotent."""
        ...

    def watch(self, name: str, callback: Callable[[LimitEvent], None]) -> None:
        """Call `callback` for each event of the limit with this name."""
        ...

    def unwatch(self, name: str, callback: Callable[[LimitEvent], None]) -> None:
        """End it, unless another callback watches the limit by now."""
        ...


class LimiterUnavailableError(Exception):
    """The state of the limits cannot be reached now."""
