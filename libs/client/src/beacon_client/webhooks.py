"""Webhooks over the runner's API."""

from collections.abc import AsyncGenerator, Sequence
from urllib.parse import quote

from beacon_client.runner_http import RunnerHttp
from beacon_contracts.model import RequestModel
from beacon_contracts.webhooks import (
    DeliveryPage,
    DeliveryView,
    NewWebhook,
    WebhookChange,
    WebhookCreated,
    WebhookEvent,
    WebhookList,
    WebhookView,
)

WEBHOOKS = "/api/v1/webhooks"


class WebhooksClient:
    """The webhooks of the key's user; with an administrator's key those of any user."""

    def __init__(self, http: RunnerHttp) -> None:
        self._http = http

    async def create(
        self, url: str, *, events: Sequence[WebhookEvent] | None = None, description: str = ""
    ) -> WebhookCreated:
        """An endpoint for events of the user's jobs, with its secret, which is returned only here."""
        new = NewWebhook(url=url, events=None if events is None else list(events), description=description)
        return WebhookCreated.model_validate_json(await self._http.post(WEBHOOKS, _body(new)))

    async def list(self, *, user: str | None = None) -> list[WebhookView]:
        """The endpoints of the key's user; with an administrator's key, of the given user."""
        return WebhookList.model_validate_json(await self._http.get(WEBHOOKS, {"user": user})).webhooks

    async def get(self, webhook_id: str) -> WebhookView:
        """One endpoint."""
        return WebhookView.model_validate_json(await self._http.get(_path(webhook_id)))

    async def change(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        events: Sequence[WebhookEvent] | None = None,
        description: str | None = None,
        disabled: bool | None = None,
    ) -> WebhookView:
        """Change an endpoint, or disable it and enable it again; None changes nothing."""
        change = WebhookChange(
            url=url,
            events=None if events is None else [*events],
            description=description,
            disabled=disabled,
        )
        answer = await self._http.post(_path(webhook_id), _body(change), repeatable=True)
        return WebhookView.model_validate_json(answer)

    async def rotate(self, webhook_id: str) -> WebhookCreated:
        """Create a new secret, which is returned only here. For a day the old one signs too."""
        return WebhookCreated.model_validate_json(await self._http.post(f"{_path(webhook_id)}/rotate"))

    async def delete(self, webhook_id: str) -> None:
        """Delete an endpoint with its deliveries."""
        await self._http.delete(_path(webhook_id))

    async def test(self, webhook_id: str) -> DeliveryView:
        """Send an event of type `webhook.test`."""
        return DeliveryView.model_validate_json(await self._http.post(f"{_path(webhook_id)}/test"))

    async def deliveries(self, webhook_id: str) -> AsyncGenerator[DeliveryView]:
        """The deliveries of an endpoint, also pending ones, newest first; pages are fetched on demand."""
        path = f"{_path(webhook_id)}/deliveries"
        async for page in self._http.pages(path, DeliveryPage.model_validate_json):
            for delivery in page.deliveries:
                yield delivery

    async def replay(self, webhook_id: str, delivery_id: str) -> DeliveryView:
        """Send a delivery again, with the same `webhook-id`."""
        path = f"{_path(webhook_id)}/deliveries/{quote(delivery_id, safe='')}/replay"
        return DeliveryView.model_validate_json(await self._http.post(path, repeatable=True))


def _path(webhook_id: str) -> str:
    return f"{WEBHOOKS}/{quote(webhook_id, safe='')}"


def _body(model: RequestModel) -> bytes:
    return model.model_dump_json(exclude_none=True).encode()
