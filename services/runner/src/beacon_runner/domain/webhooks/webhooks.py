"""Webhooks: endpoints, deliveries, their messages and when they are attempted (Standard Webhooks 1.0.0)."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from standardwebhooks.webhooks import Webhook

from beacon_contracts.ids import (
    DELIVERY,
    DeliveryId,
    JobId,
    UserId,
    WebhookId,
    encode_execution_id,
    encode_id,
    encode_job_id,
)
from beacon_contracts.webhooks import JOB_EVENTS, DeliveryState, WebhookEvent

SECRET_BYTES = 32
ROTATION_S = 86_400.0  # for so long the secret before a rotation signs too
MAX_KEPT_ATTEMPTS = 20
USER_AGENT = "Beacon-Webhooks/1"
GONE = 410
JITTER = 0.1

# Seconds from the event to each attempt.
ATTEMPTS_AT_S = (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """`url` None: the endpoint for the `webhook_url` of jobs."""

    id: WebhookId
    user: UserId
    url: str | None
    events: tuple[WebhookEvent, ...]
    description: str
    created_at: datetime
    disabled_at: datetime | None
    disabled_reason: str | None
    previous_until: datetime | None


@dataclass(frozen=True, slots=True)
class NewEndpoint:
    id: WebhookId
    user: UserId
    url: str | None
    secret: str
    events: Sequence[str] = JOB_EVENTS
    description: str = ""


@dataclass(frozen=True, slots=True)
class EndpointChange:
    """None changes nothing; `disabled_reason` is stored if `disabled`.

    What is disabled `by_admin` stays so until an administrator enables it.
    """

    url: str | None = None
    events: Sequence[str] | None = None
    description: str | None = None
    disabled: bool | None = None
    disabled_reason: str | None = None
    by_admin: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request: the status of its response, or the error without one."""

    at: datetime
    duration_s: float
    status: int | None = None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    id: DeliveryId
    endpoint: WebhookId
    job: JobId | None
    type: str
    url: str
    state: DeliveryState
    created_at: datetime
    due_at: datetime | None
    data: Mapping[str, Any]
    attempts: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class LeasedDelivery:
    """A delivery to be attempted now. `secrets`: the current one first; `attempt` counts from 1."""

    id: DeliveryId
    endpoint: WebhookId
    job: JobId | None
    type: str
    url: str
    own_url: bool
    data: Mapping[str, Any]
    created_at: datetime
    secrets: tuple[str, ...]
    attempt: int
    fence: int
    late_s: float


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """What an attempt changes: ended with `state`, or the next attempt after `retry_in_s`."""

    state: DeliveryState
    attempt: Attempt
    retry_in_s: float | None = None
    disable: bool = False


def new_secret(random_bytes: bytes) -> str:
    return f"whsec_{b64encode(random_bytes).decode()}"


def judge(delivery: LeasedDelivery, attempt: Attempt, chance: float) -> DeliveryResult:
    """2xx ends the delivery; 410 disables the endpoint; anything else is retried until the last attempt."""
    if attempt.succeeded:
        return DeliveryResult(DeliveryState.DELIVERED, attempt)
    if attempt.status == GONE:
        # The URL of one job says nothing about those of others.
        return DeliveryResult(DeliveryState.FAILED, attempt, disable=not delivery.own_url)
    delay = retry_delay_s(delivery.attempt, chance)
    state = DeliveryState.FAILED if delay is None else DeliveryState.PENDING
    return DeliveryResult(state, attempt, delay)


def retry_delay_s(attempt: int, chance: float) -> float | None:
    """Until the attempt after this one, with jitter; None after the last. `chance` is in [0, 1)."""
    if attempt >= len(ATTEMPTS_AT_S):
        return None
    delay = ATTEMPTS_AT_S[attempt] - ATTEMPTS_AT_S[attempt - 1]
    return delay * (1 + JITTER * (2 * chance - 1))


def delivery_data(job: JobId | None, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data of the message: ids as the API shows them, and no content of the job."""
    if job is None:
        return data
    shown: dict[str, Any] = {"job_id": encode_job_id(job)}
    given = dict(data)
    if "ordinal" in given:
        shown["execution_id"] = encode_execution_id(job, given.pop("stage"), given.pop("ordinal"))
    return shown | given


def message(delivery: LeasedDelivery) -> bytes:
    """The body. Every attempt sends the same bytes."""
    document = {
        "type": delivery.type,
        "timestamp": delivery.created_at,
        "data": delivery_data(delivery.job, delivery.data),
    }
    return orjson.dumps(document)


def headers(delivery: LeasedDelivery, body: bytes, now: datetime) -> Mapping[str, str]:
    """Signed for this attempt, with every secret that is valid; `now` is in UTC."""
    message_id, text = encode_id(DELIVERY, delivery.id), body.decode()
    signatures = [Webhook(secret).sign(message_id, now, text) for secret in delivery.secrets]
    return {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }
