"""Endpoints of webhooks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beacon_contracts.ids import DeliveryId, JobId, UserId, WebhookId
from beacon_contracts.webhooks import TEST_EVENT, DeliveryState, WebhookEvent
from beacon_runner.domain.errors import TooManyWebhooksError, UnknownDeliveryError, UnknownWebhookError
from beacon_runner.domain.webhooks import DeliveryRecord, EndpointChange, NewEndpoint, WebhookEndpoint
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements

if TYPE_CHECKING:
    from beacon_runner.postgres.database import Connection

_SQL = statements("webhooks")


class PostgresWebhooks:
    """`owner` None means any user's. Deliveries of events are added by triggers (migrations)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, new: NewEndpoint, max_endpoints: int) -> WebhookEndpoint:
        async with self._database.transaction() as connection:
            await connection.fetchval(_SQL["lock_user"], new.user)
            if await connection.fetchval(_SQL["count_endpoints"], new.user) >= max_endpoints:
                raise TooManyWebhooksError(max_endpoints)
            return _endpoint(await connection.fetchrow(_SQL["add_endpoint"], *_values(new)))

    async def ensure_for_jobs(self, new: NewEndpoint) -> None:
        await self._database.fetchrow(_SQL["add_endpoint"], *_values(new))

    async def of_user(self, user: UserId) -> list[WebhookEndpoint]:
        return [_endpoint(row) for row in await self._database.fetch(_SQL["endpoints_of_user"], user)]

    async def get(self, webhook: WebhookId, owner: UserId | None) -> WebhookEndpoint:
        return _endpoint(await self._database.fetchrow(_SQL["endpoint"], webhook, owner))

    async def change(
        self, webhook: WebhookId, owner: UserId | None, change: EndpointChange
    ) -> WebhookEndpoint:
        """Disabling ends the pending deliveries as failed."""
        async with self._database.transaction() as connection:
            return await change_endpoint(connection, webhook, owner, change)

    async def rotate(
        self, webhook: WebhookId, owner: UserId | None, secret: str, *, overlap_s: float
    ) -> WebhookEndpoint:
        row = await self._database.fetchrow(_SQL["rotate_secret"], webhook, owner, secret, overlap_s)
        return _endpoint(row)

    async def delete(self, webhook: WebhookId, owner: UserId | None) -> WebhookEndpoint:
        return _endpoint(await self._database.fetchrow(_SQL["delete_endpoint"], webhook, owner))

    async def add_test(self, webhook: WebhookId, owner: UserId | None) -> DeliveryRecord:
        async with self._database.transaction() as connection:
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

    async def replay(self, webhook: WebhookId, delivery: DeliveryId) -> DeliveryRecord:
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(_SQL["replay"], webhook, delivery)
            if row is None:
                raise UnknownDeliveryError
            await connection.execute(_SQL["notify"])
            return _delivery(row)


async def change_endpoint(
    connection: "Connection", webhook: WebhookId, owner: UserId | None, change: EndpointChange
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
    )
    endpoint = _endpoint(row)
    if change.disabled:
        await connection.execute(_SQL["end_deliveries"], webhook)
    return endpoint


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
