"""Endpoints of webhooks and their deliveries."""

from collections.abc import Sequence
from typing import Protocol

from beacon_contracts.ids import DeliveryId, UserId, WebhookId
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.webhooks.webhooks import (
    Attempt,
    DeliveryRecord,
    DeliveryResult,
    EndpointChange,
    LeasedDelivery,
    NewEndpoint,
    WebhookEndpoint,
)


class WebhookStore(Protocol):
    """`owner` None means any user's. Methods with an id raise `UnknownWebhookError`."""

    async def add(self, new: NewEndpoint, max_endpoints: int, *, by: Actor = ...) -> WebhookEndpoint:
        """Raises `TooManyWebhooksError` if the user has `max_endpoints`."""
        ...

    async def ensure_for_jobs(self, new: NewEndpoint) -> None:
        """Add the user's endpoint without a URL if there is none."""
        ...

    async def of_user(self, user: UserId) -> Sequence[WebhookEndpoint]: ...

    async def get(self, webhook: WebhookId, owner: UserId | None) -> WebhookEndpoint: ...

    async def change(
        self, webhook: WebhookId, owner: UserId | None, change: EndpointChange, *, by: Actor = ...
    ) -> WebhookEndpoint:
        """Disabling ends the pending deliveries as failed."""
        ...

    async def rotate(
        self, webhook: WebhookId, owner: UserId | None, secret: str, *, overlap_s: float, by: Actor = ...
    ) -> WebhookEndpoint: ...

    async def delete(self, webhook: WebhookId, owner: UserId | None, *, by: Actor = ...) -> WebhookEndpoint:
        """Its deliveries are deleted too."""
        ...

    async def add_test(self, webhook: WebhookId, owner: UserId | None) -> DeliveryRecord: ...

    async def deliveries(
        self, webhook: WebhookId, before: DeliveryId | None, limit: int
    ) -> Sequence[DeliveryRecord]:
        """Newest first."""
        ...

    async def replay(self, webhook: WebhookId, owner: UserId | None, delivery: DeliveryId) -> DeliveryRecord:
        """Due now, with all attempts; raises `UnknownDeliveryError`."""
        ...


class DeliveryQueue(Protocol):
    async def lease(self, limit: int, *, per_endpoint: int, lease_s: float) -> Sequence[LeasedDelivery]:
        """Due deliveries that no other process has; endpoints with the fewest leases first."""
        ...

    async def record(self, delivery: LeasedDelivery, result: DeliveryResult) -> bool:
        """Ends the lease; false if another process has leased the delivery since."""
        ...

    async def release(self, deliveries: Sequence[LeasedDelivery]) -> None:
        """Due at once, in any process."""
        ...

    async def remove_ended(self, kept_s: float, limit: int) -> int: ...


class WebhookPort(Protocol):
    async def send(self, delivery: LeasedDelivery) -> Attempt:
        """One request, whatever comes of it."""
        ...
