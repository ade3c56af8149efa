"""Leases of deliveries, and the results of their attempts."""

from collections.abc import Sequence
from typing import Any

from beacon_contracts.ids import DeliveryId, JobId, WebhookId
from beacon_runner.domain.webhooks.webhooks import (
    MAX_KEPT_ATTEMPTS,
    Attempt,
    DeliveryResult,
    EndpointChange,
    LeasedDelivery,
)
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.statements import statements
from beacon_runner.postgres.webhooks.endpoints import change_endpoint

_SQL = statements("webhooks")


class PostgresDeliveries:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def lease(self, limit: int, *, per_endpoint: int, lease_s: float) -> Sequence[LeasedDelivery]:
        """Due deliveries that no other process has; endpoints with the fewest leases first."""
        async with self._database.transaction() as connection:
            await connection.execute(_SQL["lock_leases"])
            rows = await connection.fetch(_SQL["lease"], limit, per_endpoint, lease_s)
        return [_leased(row) for row in rows]

    async def record(self, delivery: LeasedDelivery, result: DeliveryResult) -> bool:
        """Ends the lease; false if another process has leased the delivery since."""
        async with self._database.transaction() as connection:
            if result.disable:
                await connection.execute(_SQL["lock_endpoint"], delivery.endpoint)
            values = delivery.id, delivery.fence, result.state, result.retry_in_s, [_attempt(result.attempt)]
            if await connection.fetchval(_SQL["record"], *values, MAX_KEPT_ATTEMPTS) is None:
                return False
            if result.disable:
                reason = f"the receiver answered {result.attempt.status}"
                change = EndpointChange(disabled=True, disabled_reason=reason)
                await change_endpoint(connection, delivery.endpoint, None, change)
        return True

    async def release(self, deliveries: Sequence[LeasedDelivery]) -> None:
        """Due at once, in any process."""
        leases = [one.id for one in deliveries], [one.fence for one in deliveries]
        await self._database.execute(_SQL["release"], *leases)

    async def remove_ended(self, kept_s: float, limit: int) -> int:
        removed = int((await self._database.execute(_SQL["remove_ended"], kept_s, limit)).rpartition(" ")[2])
        await self._database.execute(_SQL["remove_endpoints"])
        return removed


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "at": attempt.at,
        "status": attempt.status,
        "duration_s": round(attempt.duration_s, 3),
        "error": attempt.error,
    }


def _leased(row: Any) -> LeasedDelivery:
    return LeasedDelivery(
        DeliveryId(row["id"]),
        WebhookId(row["endpoint_id"]),
        None if row["job_id"] is None else JobId(row["job_id"]),
        row["type"],
        row["url"],
        row["own_url"],
        row["data"],
        row["created_at"],
        tuple(secret for secret in (row["secret"], row["previous_secret"]) if secret is not None),
        row["attempt"],
        row["fence"],
        row["late_s"],
    )
