"""Users and their API keys. Only the hash of a key is stored."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from beacon_contracts.accounts import Scope
from beacon_contracts.ids import KeyId, UserId
from beacon_contracts.tiers import Tier
from beacon_runner.domain.accounts.audit import Actor


@dataclass(frozen=True, slots=True)
class Principal:
    """The user and the key of a request."""

    user: UserId
    name: str
    tier: Tier
    key: KeyId
    scopes: frozenset[Scope]
    credit: int
    weight: float = 1.0
    key_hint: str = ""

    @property
    def actor(self) -> Actor:
        """Who is recorded for a change by this key."""
        return Actor(self.user, self.key_hint)

    @property
    def owner(self) -> UserId | None:
        """Whose jobs this key may see and change; None means all users'."""
        return None if Scope.ADMIN in self.scopes else self.user


@dataclass(frozen=True, slots=True)
class User:
    id: UserId
    name: str
    tier: Tier
    weight: float
    credit: int
    created_at: datetime
    disabled_at: datetime | None


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: KeyId
    user: UserId
    name: str
    hint: str
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


def hash_key(key: str) -> bytes:
    return sha256(key.encode()).digest()
