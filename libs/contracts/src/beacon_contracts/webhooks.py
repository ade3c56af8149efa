"""Webhooks: endpoints of users, their events and deliveries (Standard Webhooks 1.0.0)."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from beacon_contracts.model import RequestModel, ResponseModel, Text


class WebhookEvent(StrEnum):
    """`job.*`: a job has ended. `execution.failed`: an attempt of an execution has failed."""

    JOB_COMPLETED = "job.completed"
    JOB_PARTIAL = "job.partial"
    JOB_FAILED = "job.failed"
    JOB_CANCELLED = "job.cancelled"
    JOB_EXPIRED = "job.expired"
    EXECUTION_FAILED = "execution.failed"


TEST_EVENT = "webhook.test"
"""The type of the event that the test of an endpoint sends."""

JOB_EVENTS = tuple(event for event in WebhookEvent if event.startswith("job."))
"""The events of an endpoint that names none."""

WebhookUrl = Annotated[Text, Field(min_length=1, max_length=2_000, examples=["https://example.com/beacon"])]
WebhookEvents = Annotated[
    list[WebhookEvent], Field(min_length=1, max_length=20, description="All `job.*` events if it is left out")
]
WebhookDescription = Annotated[Text, Field(max_length=200)]


class DeliveryState(StrEnum):
    """`pending` is live, the others are final until the delivery is replayed."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class NewWebhook(RequestModel):
    """An endpoint to create; without `events` it receives all `job.*` events."""

    url: WebhookUrl
    events: WebhookEvents | None = None
    description: WebhookDescription = ""


class WebhookChange(RequestModel):
    """Fields that are left out are not changed."""

    url: WebhookUrl | None = None
    events: WebhookEvents | None = None
    description: WebhookDescription | None = None
    disabled: bool | None = None


class WebhookView(ResponseModel):
    """An endpoint. The one without a `url` is for the `webhook_url` of jobs and signs their events."""

    id: str
    user_id: str
    url: str | None
    events: list[WebhookEvent]
    description: str
    created_at: datetime
    disabled_at: datetime | None = None
    disabled_reason: str | None = None
    previous_secret_until: datetime | None = Field(
        default=None, description="Until then requests are also signed with the secret before the rotation"
    )


class WebhookCreated(WebhookView):
    """The endpoint with its secret, which is returned only here."""

    secret: str


class WebhookList(ResponseModel):
    """The endpoints of a user."""

    webhooks: list[WebhookView]


class DeliveryAttempt(ResponseModel):
    """One request. `status` is the response's; without a response `error` has the reason."""

    at: datetime
    status: int | None = None
    duration_s: float
    error: str | None = None


class DeliveryView(ResponseModel):
    """An event for one endpoint; `id` is sent as `webhook-id` with every attempt."""

    id: str
    webhook_id: str
    type: str
    url: str
    state: DeliveryState
    created_at: datetime
    next_attempt_at: datetime | None = None
    attempts: list[DeliveryAttempt]
    data: dict[str, Any]


class DeliveryPage(ResponseModel):
    """Newest first."""

    deliveries: list[DeliveryView]
    next_cursor: str | None = None
