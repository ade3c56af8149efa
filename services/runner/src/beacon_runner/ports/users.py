"""Users, their API keys and their credit. Changes are recorded in the audit log as made `by` an actor."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from beacon_contracts.accounts import DisabledJobs, Scope
from beacon_contracts.ids import KeyId, UserId
from beacon_contracts.tiers import Tier
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.accounts.credit import LedgerRecord
from beacon_runner.domain.accounts.users import ApiKey, User


class UserStore(Protocol):
    async def add(
        self,
        name: str,
        tier: Tier,
        key: str,
        scopes: Sequence[Scope] = ...,
        *,
        weight: float = ...,
        by: Actor = ...,
    ) -> User:
        """A new user with a first key, in one transaction."""
        ...

    async def get(self, user: UserId) -> User: ...

    async def page(self, after: str | None, limit: int) -> Sequence[User]:
        """Users by name, after a given one."""
        ...

    async def change(
        self,
        user: UserId,
        *,
        tier: Tier | None = ...,
        disabled: bool | None = ...,
        weight: float | None = ...,
        jobs: DisabledJobs = ...,
        by: Actor = ...,
    ) -> User:
        """Disabling a user holds or cancels the live jobs; enabling releases held ones."""
        ...

    async def add_key(
        self,
        user: UserId,
        key: str,
        scopes: Sequence[Scope],
        *,
        name: str = "",
        expires_at: datetime | None = None,
        by: Actor = ...,
    ) -> ApiKey: ...

    async def keys(self, user: UserId) -> Sequence[ApiKey]: ...

    async def revoke(self, user: UserId, key: KeyId, *, by: Actor = ...) -> ApiKey: ...


class CreditStore(Protocol):
    async def change(self, user: UserId, amount: int, note: str, *, by: Actor = ...) -> int | None:
        """The new balance; None when it would leave its bounds or there is no such user."""
        ...

    async def ledger(self, user: UserId, before: int | None, limit: int) -> Sequence[LedgerRecord]:
        """Newest first."""
        ...
