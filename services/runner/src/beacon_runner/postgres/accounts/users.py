"""Users and their API keys. Only the hash of a key is stored."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from beacon_contracts.accounts import DisabledJobs, Scope
from beacon_contracts.api_keys import public_prefix
from beacon_contracts.audit import AuditAction
from beacon_contracts.ids import KEY, USER, KeyId, UserId, encode_id, new_uuid
from beacon_contracts.tiers import Tier
from beacon_runner.domain.accounts.audit import SYSTEM, Actor
from beacon_runner.domain.accounts.users import ApiKey, Principal, User, hash_key
from beacon_runner.domain.errors import (
    ApiKeyNotFoundError,
    ApiKeyTakenError,
    UserNameTakenError,
    UserNotFoundError,
)
from beacon_runner.postgres.accounts.audit import add_entry
from beacon_runner.postgres.accounts.user_jobs import release_jobs, stop_jobs
from beacon_runner.postgres.database import Database, retry_on_conflict
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("users")


class PostgresUsers:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def principal(self, key_hash: bytes) -> Principal | None:
        """None when the key is unknown, revoked, expired or its user disabled."""
        row = await self._database.fetchrow(_SQL["principal"], key_hash)
        return None if row is None else _principal(row)

    async def add(
        self,
        name: str,
        tier: Tier,
        key: str,
        scopes: Sequence[Scope] = (Scope.USER,),
        *,
        weight: float = 1.0,
        by: Actor = SYSTEM,
    ) -> User:
        """A new user with a first key, in one transaction."""
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(_SQL["add_user"], new_uuid(), name, tier, weight)
            if row is None:
                raise UserNameTakenError(name)
            user = _user(row)
            details = {"tier": tier, "weight": weight}
            await add_entry(connection, by, AuditAction.USER_CREATED, encode_id(USER, user.id), details)
            await _add_key(connection, user.id, key, scopes, name="first", by=by)
            return user

    async def ensure(self, name: str, tier: Tier) -> tuple[User, bool]:
        """The user of that name, and whether it was created now."""
        row = await self._database.fetchrow(_SQL["ensure_user"], new_uuid(), name, tier)
        return _user(row), bool(row and row["created"])

    async def get(self, user: UserId) -> User:
        return _found_user(await self._database.fetchrow(_SQL["user"], user))

    async def page(self, after: str | None, limit: int) -> list[User]:
        return [_user(row) for row in await self._database.fetch(_SQL["users_page"], after, limit)]

    @retry_on_conflict
    async def change(
        self,
        user: UserId,
        *,
        tier: Tier | None = None,
        disabled: bool | None = None,
        weight: float | None = None,
        jobs: DisabledJobs = DisabledJobs.HOLD,
        by: Actor = SYSTEM,
    ) -> User:
        """Disabling a user holds or cancels the live jobs; enabling releases held ones."""
        async with self._database.transaction() as connection:
            before = _found_user(await connection.fetchrow(_SQL["lock_user"], user))
            row = await connection.fetchrow(_SQL["change_user"], user, tier, disabled, weight)
            if disabled:
                await stop_jobs(connection, user, jobs)
            elif disabled is False and before.disabled_at is not None:
                await release_jobs(connection, user)
            details = {
                "tier": tier,
                "weight": weight,
                "disabled": disabled,
                "jobs": jobs if disabled else None,
            }
            await add_entry(connection, by, AuditAction.USER_CHANGED, encode_id(USER, user), details)
            return _found_user(row)

    async def add_key(
        self,
        user: UserId,
        key: str,
        scopes: Sequence[Scope],
        *,
        name: str = "",
        expires_at: datetime | None = None,
        by: Actor = SYSTEM,
    ) -> ApiKey:
        async with self._database.transaction() as connection:
            return await _add_key(connection, user, key, scopes, name=name, expires_at=expires_at, by=by)

    async def keys(self, user: UserId) -> list[ApiKey]:
        return [_key(row) for row in await self._database.fetch(_SQL["keys_of_user"], user)]

    async def revoke(self, user: UserId, key: KeyId, *, by: Actor = SYSTEM) -> ApiKey:
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(_SQL["revoke_key"], key, user)
            if row is None:
                raise ApiKeyNotFoundError
            revoked = _key(row)
            await _add_key_entry(connection, by, AuditAction.KEY_REVOKED, revoked)
            return revoked


async def _add_key(
    connection: "Connection",
    user: UserId,
    key: str,
    scopes: Sequence[Scope],
    *,
    name: str,
    expires_at: datetime | None = None,
    by: Actor,
) -> ApiKey:
    row = await connection.fetchrow(
        _SQL["add_key"], new_uuid(), user, name, public_prefix(key), hash_key(key), list(scopes), expires_at
    )
    if row is None:
        raise ApiKeyTakenError
    added = _key(row)
    await _add_key_entry(connection, by, AuditAction.KEY_CREATED, added)
    return added


async def _add_key_entry(connection: "Connection", by: Actor, action: AuditAction, key: ApiKey) -> None:
    details = {
        "user_id": encode_id(USER, key.user),
        "hint": key.hint,
        "scopes": sorted(key.scopes),
        "expires_at": key.expires_at,
    }
    await add_entry(connection, by, action, encode_id(KEY, key.id), details)


def _found_user(row: Any) -> User:
    if row is None:
        raise UserNotFoundError
    return _user(row)


def _scopes(names: Sequence[str]) -> frozenset[Scope]:
    return frozenset(Scope(name) for name in names)


def _principal(row: Any) -> Principal:
    return Principal(
        UserId(row["user_id"]),
        row["name"],
        row["tier"],
        KeyId(row["key_id"]),
        _scopes(row["scopes"]),
        row["credit"],
        row["weight"],
        row["hint"],
    )


def _user(row: Any) -> User:
    return User(
        UserId(row["id"]),
        row["name"],
        row["tier"],
        row["weight"],
        row["credit"],
        row["created_at"],
        row["disabled_at"],
    )


def _key(row: Any) -> ApiKey:
    return ApiKey(
        KeyId(row["id"]),
        UserId(row["user_id"]),
        row["name"],
        row["hint"],
        _scopes(row["scopes"]),
        row["created_at"],
        row["expires_at"],
        row["revoked_at"],
    )
