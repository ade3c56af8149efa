"""The audit log."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from beacon_contracts.audit import AuditAction
from beacon_contracts.ids import AuditId
from beacon_runner.domain.accounts.audit import Actor, AuditEntry, AuditFilter


class AuditLog(Protocol):
    """Stores write the entries of their changes themselves, in the transaction of the change."""

    async def add(self, actor: Actor, action: AuditAction, target: str, details: Mapping[str, Any]) -> None:
        """For changes that are not in Postgres: before the change."""
        ...

    async def page(self, wanted: AuditFilter, before: AuditId | None, limit: int) -> Sequence[AuditEntry]:
        """Newest first."""
        ...
