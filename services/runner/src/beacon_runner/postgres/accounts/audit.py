"""The audit log. `add_entry` is called in the transaction of the change."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beacon_contracts.audit import AuditAction
from beacon_contracts.ids import AuditId, UserId
from beacon_runner.domain.accounts.audit import Actor, AuditEntry, AuditFilter
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("audit")


class PostgresAudit:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, actor: Actor, action: AuditAction, target: str, details: Mapping[str, Any]) -> None:
        await add_entry(self._database, actor, action, target, details)

    async def page(self, wanted: AuditFilter, before: AuditId | None, limit: int) -> Sequence[AuditEntry]:
        """Newest first."""
        filters = wanted.actor, wanted.action, wanted.target, wanted.since, wanted.until
        rows = await self._database.fetch(_SQL[_statement(wanted)], before, *filters, limit)
        return [_entry(row) for row in rows]


async def add_entry(
    connection: "Database | Connection",
    actor: Actor,
    action: AuditAction,
    target: str,
    details: Mapping[str, Any],
) -> None:
    """`details` must have no secrets; those that are None are left out."""
    given = {name: value for name, value in details.items() if value is not None}
    await connection.execute(_SQL["add_entry"], actor.user, actor.key, action, target, given)


def _statement(wanted: AuditFilter) -> str:
    """By the index of the most selective filter."""
    if wanted.target is not None:
        return "page_by_target"
    if wanted.actor is not None:
        return "page_by_actor"
    return "page" if wanted.action is None else "page_by_action"


def _entry(row: Any) -> AuditEntry:
    user = row["actor_id"]
    actor = Actor(None if user is None else UserId(user), row["key"])
    return AuditEntry(
        AuditId(row["id"]), row["at"], actor, row["actor"], row["action"], row["target"], row["details"]
    )
