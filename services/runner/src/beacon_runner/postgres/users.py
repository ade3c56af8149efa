"""Users and their keys. A key is shown once, when it is made; only its hash is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from beacon_contracts.accounts import Scope
from beacon_contracts.ids import KeyId, UserId, new_uuid
from beacon_contracts.tiers import Tier
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

_SQL = statements("users")
_HINT = 8


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a request comes from."""

    user: UserId
    name: str
    tier: Tier
    key: KeyId
    scopes: frozenset[Scope]
    credit: int


@dataclass(frozen=True, slots=True)
class User:
    id: UserId
    name: str
    tier: Tier
    credit: int
    created_at: datetime
    disabled_at: datetime | None


@dataclass(frozen=True, slots=True)
class Key:
    id: KeyId
    user: UserId
    name: str
    hint: str
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class NameTakenError(Exception):
    """Another user has that name."""


class KeyTakenError(Exception):
    """Another user has that key."""


class NoSuchUserError(Exception):
    """There is no such user."""


class NoSuchKeyError(Exception):
    """The user has no such key."""


class NotEnoughCreditError(Exception):
    """The balance would fall below zero, or grow beyond what an account can hold."""


def hash_of(key: str) -> bytes:
    return sha256(key.encode()).digest()


class Users:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def principal(self, key_hash: bytes) -> Principal | None:
        """None when the key is unknown, revoked, expired or its user disabled."""
        row = await self._database.fetchrow(_SQL["principal"], key_hash)
        return None if row is None else _principal(row)

    async def add(self, name: str, tier: Tier) -> User:
        row = await self._database.fetchrow(_SQL["add_user"], new_uuid(), name, tier)
        if row is None:
            raise NameTakenError(name)
        return _user(row)

    async def ensure(self, name: str, tier: Tier) -> tuple[User, bool]:
        """The user of that name, and whether it was made now."""
        row = await self._database.fetchrow(_SQL["ensure_user"], new_uuid(), name, tier)
        return _user(row), bool(row and row["created"])

    async def get(self, user: UserId) -> User:
        return _found_user(await self._database.fetchrow(_SQL["user"], user))

    async def page(self, after: str | None, limit: int) -> list[User]:
        return [_user(row) for row in await self._database.fetch(_SQL["users_page"], after, limit)]

    async def change(self, user: UserId, *, tier: Tier | None, disabled: bool | None) -> User:
        return _found_user(await self._database.fetchrow(_SQL["change_user"], user, tier, disabled))

    async def change_credit(self, user: UserId, amount: int, note: str) -> int:
        """The new balance."""
        balance = await self._database.fetchval(_SQL["change_credit"], user, amount, note)
        if balance is None:
            await self.get(user)
            raise NotEnoughCreditError
        return int(balance)

    async def add_key(
        self,
        user: UserId,
        key: str,
        scopes: Sequence[Scope],
        *,
        name: str = "",
        expires_at: datetime | None = None,
    ) -> Key:
        hint = key[:_HINT]
        row = await self._database.fetchrow(
            _SQL["add_key"], new_uuid(), user, name, hint, hash_of(key), list(scopes), expires_at
        )
        if row is None:
            raise KeyTakenError
        return _key(row)

    async def keys(self, user: UserId) -> list[Key]:
        return [_key(row) for row in await self._database.fetch(_SQL["keys_of_user"], user)]

    async def revoke(self, user: UserId, key: KeyId) -> tuple[Key, bytes]:
        """The key and its hash, so that caches can forget it."""
        row = await self._database.fetchrow(_SQL["revoke_key"], key, user)
        if row is None:
            raise NoSuchKeyError
        return _key(row), row["hash"]


def _found_user(row: Any) -> User:
    if row is None:
        raise NoSuchUserError
    return _user(row)


def _scopes(names: Sequence[str]) -> frozenset[Scope]:
    return frozenset(Scope(name) for name in names)


def _principal(row: Any) -> Principal:
    return Principal(
        UserId(row["user_id"]),
        row["name"],
        Tier(row["tier"]),
        KeyId(row["key_id"]),
        _scopes(row["scopes"]),
        row["credit"],
    )


def _user(row: Any) -> User:
    return User(
        UserId(row["id"]),
        row["name"],
        Tier(row["tier"]),
        row["credit"],
        row["created_at"],
        row["disabled_at"],
    )


def _key(row: Any) -> Key:
    return Key(
        KeyId(row["id"]),
        UserId(row["user_id"]),
        row["name"],
        row["hint"],
        _scopes(row["scopes"]),
        row["created_at"],
        row["expires_at"],
        row["revoked_at"],
    )
