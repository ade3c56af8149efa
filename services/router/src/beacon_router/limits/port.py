"""What a limit that processes share promises.

A token holds a slot or stands in line for one. Never more tokens hold a slot than the cap allows. A slot that
frees goes to the first in line, who is told. A holder or waiter that does not renew within the lease is taken
for dead: its slot goes on, its place is given up.
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
class Limit:
    name: str
    cap: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How the tokens that were asked about stand; those in neither set have nothing (any more)."""

    held: frozenset[Token]
    waiting: frozenset[Token]
    others_waiting: int
    """How many of somebody else stand in line."""
    look_again_s: float | None
    """When a lease of somebody may end and the line move without news; None: nobody stands in line."""


class NewsKind(StrEnum):
    GRANTED = "granted"
    """Those who stood in line with these tokens have slots now."""
    WANTED = "wanted"
    """Somebody has joined the line: give back what is idle."""
    RENEW = "renew"
    """The limit's memory may be incomplete: say again what you hold."""


@dataclass(frozen=True, slots=True)
class News:
    kind: NewsKind
    tokens: frozenset[Token] = frozenset()


class SlotLimiter(Protocol):
    """All methods raise LimiterAwayError when the limit's memory cannot be reached."""

    @property
    def lease_s(self) -> float: ...

    async def acquire(self, limit: Limit, tokens: Sequence[Token]) -> Standing:
        """Take a slot for each, or a place in line. Asking again changes nothing."""
        ...

    async def renew(self, limit: Limit, held: Sequence[Token], waiting: Sequence[Token]) -> Standing:
        """Keep slots and places for another lease; what was forgotten is claimed again if there is room."""
        ...

    async def release(self, limit: Limit, tokens: Sequence[Token]) -> int:
        """Give slots back, or leave the line; how many were still known. Idempotent."""
        ...

    def watch(self, name: str, told: Callable[[News], None]) -> None:
        """Call `told` for everything that happens to the limit of this name."""
        ...


class LimiterAwayError(Exception):
    """The memory of the limits cannot be reached now."""
