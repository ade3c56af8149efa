"""The revisions of the configuration. The newest one applies."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from beacon_contracts.audit import AuditAction
from beacon_contracts.ids import UserId
from beacon_runner.domain.accounts.audit import SYSTEM, Actor
from beacon_runner.domain.configuration import ConfigEntry, ConfigRevision, Unserved
from beacon_runner.postgres.accounts.audit import add_entry
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

_SQL = statements("config_revisions")
_JOBS = 2_000
_FIRST = UUID(int=0)


class PostgresConfigRevisions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(self) -> ConfigRevision | None:
        return _revision(await self._database.fetchrow(_SQL["newest"]))

    async def newest_number(self) -> int | None:
        number: int | None = await self._database.fetchval(_SQL["newest_number"])
        return number

    async def revision(self, number: int) -> ConfigRevision | None:
        return _revision(await self._database.fetchrow(_SQL["revision"], number))

    async def newest_of_file(self) -> ConfigRevision | None:
        return _revision(await self._database.fetchrow(_SQL["newest_of_file"]))

    async def page(self, before: int | None, limit: int) -> Sequence[ConfigEntry]:
        return [_entry(row) for row in await self._database.fetch(_SQL["page"], before, limit)]

    async def add(
        self,
        document: Mapping[str, Any],
        *,
        after: int,
        comment: str,
        by: Actor = SYSTEM,
        action: AuditAction = AuditAction.CONFIG_CHANGED,
        target: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> int | None:
        async with self._database.transaction() as connection:
            values = by.user, by.key, comment, document
            revision: int | None = await connection.fetchval(_SQL["add"], after, *values)
            if revision is not None:
                entry = {"revision": revision, "comment": comment or None, **(details or {})}
                await add_entry(connection, by, action, target or "config", entry)
        return revision

    async def stranded(self, models: Collection[str], unserved: Unserved) -> Counter[tuple[str, str]]:
        found = Counter[tuple[str, str]]()
        after = _FIRST
        while True:
            rows = await self._database.fetch(_SQL["live_specs"], list(models), after, _JOBS)
            for row in rows:
                found.update(unserved(row["spec"], row["stage"], frozenset(row["ended"])))
            if len(rows) < _JOBS:
                return found
            after = rows[-1]["id"]

    async def live_jobs(self, classes: Collection[str]) -> Counter[str]:
        rows = await self._database.fetch(_SQL["live_jobs"], list(classes))
        return Counter({row["class"]: row["jobs"] for row in rows})


def _revision(row: Any) -> ConfigRevision | None:
    return None if row is None else ConfigRevision(_entry(row), row["document"])


def _entry(row: Any) -> ConfigEntry:
    user = row["actor_id"]
    actor = Actor(None if user is None else UserId(user), row["key"])
    return ConfigEntry(row["revision"], row["created_at"], actor, row["actor"], row["comment"])
