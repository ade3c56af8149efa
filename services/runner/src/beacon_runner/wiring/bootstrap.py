"""Creates the first user and the first operator of a new installation; idempotent."""

from collections.abc import Sequence
from contextlib import suppress

from pydantic import SecretStr

from beacon_contracts.accounts import Scope
from beacon_contracts.api_keys import new_api_key
from beacon_contracts.tiers import Tier
from beacon_runner.domain.errors import ApiKeyTakenError
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.users import PostgresUsers

USER = "demo"
ADMIN = "admin"


async def bootstrap(
    database_url: str, tiers: Sequence[str], user_key: SecretStr | None, admin_key: SecretStr | None
) -> dict[str, str]:
    """The generated keys by user: for users without a key for whom none was given.

    The operator is in the highest tier, the user in the one below it.
    """
    database = Database(database_url, size=1, name="beacon-bootstrap")
    await database.open()
    try:
        users = PostgresUsers(database)
        made = await _ensure(users, USER, tiers[:2][-1], [Scope.USER], user_key)
        return made | await _ensure(users, ADMIN, tiers[0], [Scope.ADMIN, Scope.USER], admin_key)
    finally:
        await database.close()


async def _ensure(
    users: PostgresUsers, name: str, tier: Tier, scopes: list[Scope], given: SecretStr | None
) -> dict[str, str]:
    user, _ = await users.ensure(name, tier)
    if given is not None:
        with suppress(ApiKeyTakenError):  # given before
            await users.add_key(user.id, given.get_secret_value(), scopes, name="bootstrap")
        return {}
    if any(key.revoked_at is None for key in await users.keys(user.id)):
        return {}
    key = new_api_key()
    await users.add_key(user.id, key, scopes, name="bootstrap")
    return {name: key}
