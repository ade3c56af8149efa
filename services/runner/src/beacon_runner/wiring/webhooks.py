"""Composition of the delivery of webhooks, a part of the relay."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from beacon_lifecycle import Loop, Service, WakeEvent
from beacon_runner.maintenance.webhook_delivery import WebhookDelivery
from beacon_runner.maintenance.webhook_retention import WebhookRetention
from beacon_runner.metrics import WebhookMetrics
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.listener import PostgresListener
from beacon_runner.postgres.webhooks.deliveries import PostgresDeliveries
from beacon_runner.settings import RunnerSettings
from beacon_runner.webhook_client import WebhookClient
from beacon_runner.wiring.loops import MAX_BACKOFF_S, Transport
from beacon_runner.wiring.resources import Resource

CHANNEL = "webhooks"
POLL_S = 1.0
STOP_GRACE_S = 5.0


def build_webhooks(
    settings: RunnerSettings, transport: Transport, database: Database, registry: CollectorRegistry
) -> Sequence[Service]:
    clock, live = transport.clock, transport.live
    queue, client = PostgresDeliveries(database), WebhookClient(settings.webhook_networks, clock)
    wakeup = WakeEvent()
    delivery = WebhookDelivery(queue, client, WebhookMetrics(registry), wakeup)
    removal = WebhookRetention(queue, lambda: live.current.retention.webhooks_s)
    return [
        Resource("webhook-client", close_it=client.close),
        Resource("webhook-requests", close_it=lambda: delivery.close(STOP_GRACE_S)),
        PostgresListener(settings.database_url, CHANNEL, wakeup.set),
        Loop(
            "webhook-delivery",
            delivery.run_once,
            interval_s=POLL_S,
            clock=clock,
            wakeup=wakeup,
            max_backoff_s=MAX_BACKOFF_S,
        ),
        Loop(
            "webhook-retention",
            removal.run_once,
            interval_s=live.current.retention.check_every_s,
            clock=clock,
        ),
    ]
