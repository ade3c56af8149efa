"""Webhooks: endpoints, their secrets and deliveries."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.ids import (
    DELIVERY,
    USER,
    WEBHOOK,
    DeliveryId,
    WebhookId,
    decode_id,
    encode_id,
)
from beacon_contracts.webhooks import (
    DeliveryAttempt,
    DeliveryPage,
    DeliveryView,
    NewWebhook,
    WebhookChange,
    WebhookCreated,
    WebhookList,
    WebhookView,
)
from beacon_http.replies import view_response
from beacon_runner.application.webhooks import WebhookService
from beacon_runner.domain.webhooks.webhooks import DeliveryRecord, WebhookEndpoint, delivery_data
from beacon_runner.http.auth import ApiKeyCache, principal_of, require_scope
from beacon_runner.http.cursors import Cursor, PageSize, UserFilter, read_delivery_cursor, read_user
from beacon_runner.http.openapi import problems

WEBHOOKS_PATH = "/api/v1/webhooks"

WebhookPath = Annotated[str, Path(examples=["webhook_01k9x7p4f8q2r6s0t3v5w7y9za"], max_length=80)]
DeliveryPath = Annotated[str, Path(examples=["msg_01k9x7p4f8q2r6s0t3v5w7y9za"], max_length=80)]


def webhook_routes(webhooks: WebhookService, keys: ApiKeyCache) -> list[APIRouter]:
    return [_endpoint_routes(webhooks, keys), _delivery_routes(webhooks, keys)]


def _endpoint_routes(webhooks: WebhookService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(prefix=WEBHOOKS_PATH, tags=["webhooks"], route_class=require_scope(keys, Scope.USER))

    @routes.post(
        "",
        status_code=201,
        responses={201: {"model": WebhookCreated}, **problems(400, 401, 403, 409, 422, 503)},
    )
    async def create_webhook(request: Request, new: NewWebhook) -> Response:
        """An endpoint for events of the user's jobs. Its secret is shown only now."""
        endpoint, secret = await webhooks.create(principal_of(request), new)
        return view_response(_with_secret(endpoint, secret), 201)

    @routes.get("", responses={200: {"model": WebhookList}, **problems(401, 403, 422, 503)})
    async def list_webhooks(request: Request, user: UserFilter = None) -> Response:
        """The user's endpoints, oldest first."""
        if user is not None:
            await keys.require(request.scope, Scope.ADMIN)
        found = await webhooks.of_user(principal_of(request).user if user is None else read_user(user))
        return view_response(WebhookList(webhooks=[webhook_view(one) for one in found]))

    @routes.get("/{webhook_id}", responses={200: {"model": WebhookView}, **problems(401, 403, 404, 503)})
    async def get_webhook(request: Request, webhook_id: WebhookPath) -> Response:
        return view_response(webhook_view(await webhooks.get(principal_of(request), _webhook(webhook_id))))

    @routes.post(
        "/{webhook_id}",
        responses={200: {"model": WebhookView}, **problems(400, 401, 403, 404, 409, 422, 503)},
    )
    async def change_webhook(request: Request, webhook_id: WebhookPath, change: WebhookChange) -> Response:
        """Change it, or disable it and enable it again. Disabling ends its pending deliveries as failed."""
        changed = await webhooks.change(principal_of(request), _webhook(webhook_id), change)
        return view_response(webhook_view(changed))

    @routes.delete(
        "/{webhook_id}", responses={200: {"model": WebhookView}, **problems(401, 403, 404, 409, 503)}
    )
    async def delete_webhook(request: Request, webhook_id: WebhookPath) -> Response:
        """The endpoint is returned as it was; its deliveries are deleted too."""
        return view_response(webhook_view(await webhooks.delete(principal_of(request), _webhook(webhook_id))))

    @routes.post(
        "/{webhook_id}/rotate",
        responses={200: {"model": WebhookCreated}, **problems(401, 403, 404, 409, 503)},
    )
    async def rotate_webhook_secret(request: Request, webhook_id: WebhookPath) -> Response:
        """A new secret, shown only now. For a day requests are signed with the old one too."""
        endpoint, secret = await webhooks.rotate(principal_of(request), _webhook(webhook_id))
        return view_response(_with_secret(endpoint, secret))

    @routes.post(
        "/{webhook_id}/test",
        status_code=202,
        responses={202: {"model": DeliveryView}, **problems(401, 403, 404, 409, 422, 503)},
    )
    async def send_test_webhook(request: Request, webhook_id: WebhookPath) -> Response:
        """Send an event of type `webhook.test`."""
        return view_response(
            delivery_view(await webhooks.test(principal_of(request), _webhook(webhook_id))), 202
        )

    return routes


def _delivery_routes(webhooks: WebhookService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(
        prefix=f"{WEBHOOKS_PATH}/{{webhook_id}}/deliveries",
        tags=["webhooks"],
        route_class=require_scope(keys, Scope.USER),
    )

    @routes.get("", responses={200: {"model": DeliveryPage}, **problems(401, 403, 404, 422, 503)})
    async def list_webhook_deliveries(
        request: Request, webhook_id: WebhookPath, limit: PageSize = 100, cursor: Cursor = None
    ) -> Response:
        """What was sent to an endpoint and what will be, newest first."""
        before = read_delivery_cursor(cursor)
        found = await webhooks.deliveries(principal_of(request), _webhook(webhook_id), before, limit + 1)
        next_cursor = encode_id(DELIVERY, found[limit - 1].id) if len(found) > limit else None
        views = [delivery_view(one) for one in found[:limit]]
        return view_response(DeliveryPage(deliveries=views, next_cursor=next_cursor))

    @routes.post(
        "/{delivery_id}/replay",
        status_code=202,
        responses={202: {"model": DeliveryView}, **problems(401, 403, 404, 409, 503)},
    )
    async def replay_webhook_delivery(
        request: Request, webhook_id: WebhookPath, delivery_id: DeliveryPath
    ) -> Response:
        """Send it again, now, with the same `webhook-id` and all attempts."""
        delivery = DeliveryId(decode_id(DELIVERY, delivery_id))
        replayed = await webhooks.replay(principal_of(request), _webhook(webhook_id), delivery)
        return view_response(delivery_view(replayed), 202)

    return routes


def webhook_view(endpoint: WebhookEndpoint) -> WebhookView:
    return WebhookView(
        id=encode_id(WEBHOOK, endpoint.id),
        user_id=encode_id(USER, endpoint.user),
        url=endpoint.url,
        events=list(endpoint.events),
        description=endpoint.description,
        created_at=endpoint.created_at,
        disabled_at=endpoint.disabled_at,
        disabled_reason=endpoint.disabled_reason,
        previous_secret_until=endpoint.previous_until,
    )


def delivery_view(delivery: DeliveryRecord) -> DeliveryView:
    return DeliveryView(
        id=encode_id(DELIVERY, delivery.id),
        webhook_id=encode_id(WEBHOOK, delivery.endpoint),
        type=delivery.type,
        url=delivery.url,
        state=delivery.state,
        created_at=delivery.created_at,
        next_attempt_at=delivery.due_at,
        attempts=[DeliveryAttempt.model_validate(one) for one in delivery.attempts],
        data=dict(delivery_data(delivery.job, delivery.data)),
    )


def _with_secret(endpoint: WebhookEndpoint, secret: str) -> WebhookCreated:
    return WebhookCreated(**webhook_view(endpoint).model_dump(), secret=secret)


def _webhook(text: str) -> WebhookId:
    return WebhookId(decode_id(WEBHOOK, text))
