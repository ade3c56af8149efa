"""Creates the first user and the first operator of a new installation; idempotent."""

from collections.abc import Mapping
from contextlib import suppress

import structlog
from pydantic import SecretStr

from beacon_config import load_config
from beacon_contracts.accounts import Scope
from beacon_contracts.api_keys import new_api_key
from beacon_contracts.tiers import Tier
from beacon_runner.application.configuration import ConfigService
from beacon_runner.domain.errors import ApiKeyTakenError
from beacon_runner.postgres.accounts.users import PostgresUsers
from beacon_runner.postgres.config_revisions import PostgresConfigRevisions
from beacon_runner.postgres.database import Database
from beacon_runner.settings import BootstrapSettings
from beacon_runner.wiring.configuration import apply_file, file_changed, seed

log = structlog.get_logger(__name__)

USER = "demo"
ADMIN = "admin"


async def bootstrap(settings: BootstrapSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The generated keys by user: for users without a key for whom none was given.

    The operator is in the highest tier, the user in the one below it. The file becomes the first revision of
    the configuration; with `apply_config` a file that has changed becomes the newest one, whatever work it
    leaves without a backend.
    """
    user_key, admin_key = settings.user_key, settings.admin_key
    tiers = list(load_config(settings.config_path, environ).tiers)
    database = Database(settings.database_url, size=1, name="beacon-bootstrap")
    await database.open()
    try:
        await _configure(PostgresConfigRevisions(database), settings)
        users = PostgresUsers(database)
        made = await _ensure(users, USER, tiers[:2][-1], [Scope.USER], user_key)
        return made | await _ensure(users, ADMIN, tiers[0], [Scope.ADMIN, Scope.USER], admin_key)
    finally:
        await database.close()


async def _configure(store: PostgresConfigRevisions, settings: BootstrapSettings) -> None:
    path = settings.config_path
    if await seed(store, path) or not settings.apply_config or not await file_changed(store, path):
        return
    change = await apply_file(
        ConfigService(store), path, comment=f"{path.name} at the start", force=True, simulates=True
    )
    if change.applied:
        log.info(
            "config_file_applied",
            revision=change.revision,
            keys=[one.key for one in change.differences],
            stranded=[one.model_dump() for one in change.stranded],
        )


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
