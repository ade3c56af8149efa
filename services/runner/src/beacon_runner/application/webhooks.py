"""Endpoints of webhooks: what their users and operators may do with them."""

from collections.abc import Callable, Mapping, Sequence
from secrets import token_bytes
from typing import Any

from beacon_contracts.ids import DeliveryId, UserId, WebhookId, new_uuid
from beacon_contracts.jobs import JobWebhook
from beacon_contracts.webhooks import JOB_EVENTS, NewWebhook, WebhookChange
from beacon_runner.domain.accounts.users import Principal
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.domain.webhooks.urls import Network, url_problem
from beacon_runner.domain.webhooks.webhooks import (
    ROTATION_S,
    SECRET_BYTES,
    DeliveryRecord,
    EndpointChange,
    NewEndpoint,
    WebhookEndpoint,
    new_secret,
)
from beacon_runner.ports.webhooks import WebhookStore

_NO_URL = "this webhook has no URL of its own: it is for the webhook_url of jobs"


class WebhookService:
    """Secrets are returned when they are made, and never again."""

    def __init__(
        self, store: WebhookStore, allowed: Sequence[Network], *, max_endpoints: Callable[[], int]
    ) -> None:
        self._store = store
        self._allowed = tuple(allowed)
        self._max_endpoints = max_endpoints

    async def create(self, principal: Principal, new: NewWebhook) -> tuple[WebhookEndpoint, str]:
        self.check_url(new.url, "url")
        secret = new_secret(token_bytes(SECRET_BYTES))
        endpoint = NewEndpoint(
            WebhookId(new_uuid()),
            principal.user,
            new.url,
            secret,
            list(dict.fromkeys(new.events or JOB_EVENTS)),
            new.description,
        )
        return await self._store.add(endpoint, self._max_endpoints(), by=principal.actor), secret

    async def of_user(self, user: UserId) -> Sequence[WebhookEndpoint]:
        return await self._store.of_user(user)

    async def get(self, principal: Principal, webhook: WebhookId) -> WebhookEndpoint:
        return await self._store.get(webhook, principal.owner)

    async def change(
        self, principal: Principal, webhook: WebhookId, change: WebhookChange
    ) -> WebhookEndpoint:
        if change.url is not None:
            await self._require_url(principal, webhook)
            self.check_url(change.url, "url")
        by_admin = principal.owner is None
        return await self._store.change(
            webhook,
            principal.owner,
            EndpointChange(
                change.url,
                change.events and list(dict.fromkeys(change.events)),
                change.description,
                change.disabled,
                "disabled by an administrator" if by_admin else "disabled by its user",
                by_admin,
            ),
            by=principal.actor,
        )

    async def rotate(self, principal: Principal, webhook: WebhookId) -> tuple[WebhookEndpoint, str]:
        """A new secret; the old one signs too for a day."""
        secret = new_secret(token_bytes(SECRET_BYTES))
        rotated = await self._store.rotate(
            webhook, principal.owner, secret, overlap_s=ROTATION_S, by=principal.actor
        )
        return rotated, secret

    async def delete(self, principal: Principal, webhook: WebhookId) -> WebhookEndpoint:
        return await self._store.delete(webhook, principal.owner, by=principal.actor)

    async def test(self, principal: Principal, webhook: WebhookId) -> DeliveryRecord:
        """Send a test event, which takes the same path as all others."""
        await self._require_url(principal, webhook)
        return await self._store.add_test(webhook, principal.owner)

    async def deliveries(
        self, principal: Principal, webhook: WebhookId, before: DeliveryId | None, limit: int
    ) -> Sequence[DeliveryRecord]:
        await self._store.get(webhook, principal.owner)
        return await self._store.deliveries(webhook, before, limit)

    async def replay(self, principal: Principal, webhook: WebhookId, delivery: DeliveryId) -> DeliveryRecord:
        await self._store.get(webhook, principal.owner)
        return await self._store.replay(webhook, principal.owner, delivery)

    def check_url(self, url: str, field: str) -> None:
        problem = url_problem(url, self._allowed)
        if problem is not None:
            raise InvalidFieldsError.of(field, problem, "invalid_url")

    def of_job(self, job: JobWebhook) -> Mapping[str, Any] | None:
        """What is stored of a job's own webhook."""
        if job.webhook_url is None:
            if job.webhook_events is not None:
                raise InvalidFieldsError.of("webhook_events", "is valid only with a webhook_url")
            return None
        self.check_url(job.webhook_url, "webhook_url")
        return {"url": job.webhook_url, "events": list(dict.fromkeys(job.webhook_events or JOB_EVENTS))}

    async def ensure_for_jobs(self, user: UserId) -> None:
        """The endpoint whose secret signs the events of jobs with a `webhook_url`."""
        secret = new_secret(token_bytes(SECRET_BYTES))
        await self._store.ensure_for_jobs(NewEndpoint(WebhookId(new_uuid()), user, None, secret))

    async def _require_url(self, principal: Principal, webhook: WebhookId) -> None:
        endpoint = await self._store.get(webhook, principal.owner)
        if endpoint.url is None:
            raise InvalidFieldsError.of("url", _NO_URL, "no_url")
