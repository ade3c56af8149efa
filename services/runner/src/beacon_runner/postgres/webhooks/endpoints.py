"""Endpoints of webhooks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from beacon_contracts.audit import AuditAction
from beacon_contracts.ids import USER, WEBHOOK, DeliveryId, JobId, UserId, WebhookId, encode_id
from beacon_contracts.webhooks import TEST_EVENT, DeliveryState, WebhookEvent
from beacon_runner.domain.accounts.audit import SYSTEM, Actor
from beacon_runner.domain.errors import (
    TooManyWebhooksError,
    UnknownDeliveryError,
    UnknownWebhookError,
    WebhookLockedError,
)
from beacon_runner.domain.webhooks.webhooks import (
    DeliveryRecord,
    EndpointChange,
    NewEndpoint,
    WebhookEndpoint,
)
from beacon_runner.postgres.accounts.audit import add_entry
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("webhooks")


class PostgresWebhooks:
    """`owner` None means any user's. Deliveries of events are added by triggers (migrations)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, new: NewEndpoint, max_endpoints: int, *, by: Actor = SYSTEM) -> WebhookEndpoint:
        async with self._database.transaction() as connection:
            await connection.fetchval(_SQL["lock_user"], new.user)
            if await connection.fetchval(_SQL["count_endpoints"], new.user) >= max_endpoints:
                raise TooManyWebhooksError(max_endpoints)
            endpoint = _endpoint(await connection.fetchrow(_SQL["add_endpoint"], *_values(new)))
            await _add_entry(connection, by, AuditAction.WEBHOOK_CREATED, endpoint)
            return endpoint

    async def ensure_for_jobs(self, new: NewEndpoint) -> None:
        await self._database.fetchrow(_SQL["add_endpoint"], *_values(new))

    async def of_user(self, user: UserId) -> list[WebhookEndpoint]:
        return [_endpoint(row) for row in await self._database.fetch(_SQL["endpoints_of_user"], user)]

    async def get(self, webhook: WebhookId, owner: UserId | None) -> WebhookEndpoint:
        return _endpoint(await self._database.fetchrow(_SQL["endpoint"], webhook, owner))

    async def change(
        self, webhook: WebhookId, owner: UserId | None, change: EndpointChange, *, by: Actor = SYSTEM
    ) -> WebhookEndpoint:
        """Disabling ends the pending deliveries as failed."""
        async with self._database.transaction() as connection:
            await _require_unlocked(connection, webhook, owner)
            return await change_endpoint(connection, webhook, owner, change, by=by)

    async def rotate(
        self, webhook: WebhookId, owner: UserId | None, secret: str, *, overlap_s: float, by: Actor = SYSTEM
    ) -> WebhookEndpoint:
        async with self._database.transaction() as connection:
            await _require_unlocked(connection, webhook, owner)
            row = await connection.fetchrow(_SQL["rotate_secret"], webhook, owner, secret, overlap_s)
            endpoint = _endpoint(row)
            await _add_entry(connection, by, AuditAction.WEBHOOK_ROTATED, endpoint)
            return endpoint

    async def delete(
        self, webhook: WebhookId, owner: UserId | None, *, by: Actor = SYSTEM
    ) -> WebhookEndpoint:
        async with self._database.transaction() as connection:
            await _require_unlocked(connection, webhook, owner)
            endpoint = _endpoint(await connection.fetchrow(_SQL["delete_endpoint"], webhook, owner))
            await connection.execute(_SQL["end_deliveries"], webhook)
            await _add_entry(connection, by, AuditAction.WEBHOOK_DELETED, endpoint)
            return endpoint

    async def add_test(self, webhook: WebhookId, owner: UserId | None) -> DeliveryRecord:
        async with self._database.transaction() as connection:
            await _require_unlocked(connection, webhook, owner)
            endpoint = _endpoint(await connection.fetchrow(_SQL["endpoint"], webhook, owner))
            row = await connection.fetchrow(_SQL["add_test"], webhook, TEST_EVENT, endpoint.url)
            await connection.execute(_SQL["notify"])
            return _delivery(row)

    async def deliveries(
        self, webhook: WebhookId, before: DeliveryId | None, limit: int
    ) -> list[DeliveryRecord]:
        """Newest first."""
        rows = await self._database.fetch(_SQL["deliveries_page"], webhook, before, limit)
        return [_delivery(row) for row in rows]

    async def replay(self, webhook: WebhookId, owner: UserId | None, delivery: DeliveryId) -> DeliveryRecord:
        async with self._database.transaction() as connection:
            await _require_unlocked(connection, webhook, owner)
            row = await connection.fetchrow(_SQL["replay"], webhook, delivery)
            if row is None:
                raise UnknownDeliveryError
            await connection.execute(_SQL["notify"])
            return _delivery(row)


async def change_endpoint(
    connection: "Connection",
    webhook: WebhookId,
    owner: UserId | None,
    change: EndpointChange,
    *,
    by: Actor = SYSTEM,
) -> WebhookEndpoint:
    row = await connection.fetchrow(
        _SQL["change_endpoint"],
        webhook,
        owner,
        change.url,
        change.events,
        change.description,
        change.disabled,
        change.disabled_reason,
        change.by_admin,
    )
    endpoint = _endpoint(row)
    if change.disabled:
        await connection.execute(_SQL["end_deliveries"], webhook)
    await _add_entry(connection, by, AuditAction.WEBHOOK_CHANGED, endpoint)
    return endpoint


async def _require_unlocked(connection: "Connection", webhook: WebhookId, owner: UserId | None) -> None:
    """Until the commit, no administrator disables it. An unknown endpoint is reported by what follows."""
    if owner is not None and await connection.fetchval(_SQL["lock_own_endpoint"], webhook, owner):
        raise WebhookLockedError


async def _add_entry(
    connection: "Connection", by: Actor, action: AuditAction, endpoint: WebhookEndpoint
) -> None:
    """With the host alone of the URL: the rest may have a token of the receiver."""
    details = {
        "user_id": encode_id(USER, endpoint.user),
        "host": None if endpoint.url is None else urlsplit(endpoint.url).hostname,
        "events": list(endpoint.events),
        "disabled": endpoint.disabled_reason,
    }
    await add_entry(connection, by, action, encode_id(WEBHOOK, endpoint.id), details)


def _values(new: NewEndpoint) -> Sequence[Any]:
    return new.id, new.user, new.url, list(new.events), new.description, new.secret


def _endpoint(row: Any) -> WebhookEndpoint:
    if row is None:
        raise UnknownWebhookError
    return WebhookEndpoint(
        WebhookId(row["id"]),
        UserId(row["user_id"]),
        row["url"],
        tuple(WebhookEvent(event) for event in row["events"]),
        row["description"],
        row["created_at"],
        row["disabled_at"],
        row["disabled_reason"],
        row["previous_until"],
    )


def _delivery(row: Any) -> DeliveryRecord:
    return DeliveryRecord(
        DeliveryId(row["id"]),
        WebhookId(row["endpoint_id"]),
        None if row["job_id"] is None else JobId(row["job_id"]),
        row["type"],
        row["url"],
        DeliveryState(row["state"]),
        row["created_at"],
        row["due_at"],
        row["data"],
        row["attempts"],
    )
