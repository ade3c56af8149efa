"""Sends due deliveries of webhooks: at least once, with the same `webhook-id` in every attempt."""

from random import random

import structlog

from beacon_contracts.ids import DELIVERY, DeliveryId, encode_id
from beacon_contracts.webhooks import DeliveryState
from beacon_lifecycle import RunResult, TaskSet, WakeEvent
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.webhooks.webhooks import LeasedDelivery, judge
from beacon_runner.metrics import WebhookMetrics
from beacon_runner.ports.webhooks import DeliveryQueue, WebhookPort

log = structlog.get_logger(__name__)

CONCURRENCY = 200  # requests of one process; half of them for endpoints without an open request
PER_ENDPOINT = 8  # requests to one endpoint
LEASE_S = 45.0  # longer than a request may take


class WebhookDelivery:
    """`run_once` starts requests and does not wait for them, so that a slow receiver delays no other.

    A lease of a process that died ends, and the delivery is attempted again.
    """

    def __init__(
        self, queue: DeliveryQueue, sender: WebhookPort, metrics: WebhookMetrics, wakeup: WakeEvent
    ) -> None:
        self._queue = queue
        self._sender = sender
        self._metrics = metrics
        self._wakeup = wakeup
        self._open: dict[DeliveryId, LeasedDelivery] = {}
        self._tasks = TaskSet("webhook-delivery")
        metrics.in_flight.set_function(lambda: len(self._open))

    async def run_once(self) -> RunResult:
        free, reserved = CONCURRENCY - len(self._open), CONCURRENCY // 2
        if free <= 0:
            return RunResult(0)  # the next end of a request wakes the loop
        limit, per_endpoint = (free - reserved, PER_ENDPOINT) if free > reserved else (free, 1)
        leased = await self._queue.lease(limit, per_endpoint=per_endpoint, lease_s=LEASE_S)
        self._metrics.late.set(max((delivery.late_s for delivery in leased), default=0.0))
        for delivery in leased:
            self._open[delivery.id] = delivery
            self._tasks.spawn(str(delivery.id), self._deliver(delivery))
        return RunResult.limited(len(leased), limit)

    async def idle(self) -> None:
        """All requests that were started have ended."""
        await self._tasks.drain(LEASE_S)

    async def close(self, grace_s: float) -> None:
        """Let requests end; those that do not are attempted again by another process."""
        await self._tasks.drain(grace_s)
        unfinished = list(self._open.values())
        await self._tasks.close()
        if unfinished:
            try:
                await self._queue.release(unfinished)
            except StoreUnavailableError as error:  # the leases end
                log.warning("webhook_release_failed", error=str(error))

    async def _deliver(self, delivery: LeasedDelivery) -> None:
        try:
            attempt = await self._sender.send(delivery)
            result = judge(delivery, attempt, random())  # noqa: S311 - jitter
            if not await self._queue.record(delivery, result):
                log.info("webhook_lease_lost", delivery=encode_id(DELIVERY, delivery.id))
                return
            retried = result.state is DeliveryState.PENDING
            self._metrics.attempts.labels("retried" if retried else result.state).inc()
            self._metrics.duration.observe(attempt.duration_s)
        except StoreUnavailableError as error:
            log.warning("webhook_record_failed", delivery=encode_id(DELIVERY, delivery.id), error=str(error))
        finally:
            del self._open[delivery.id]
            self._wakeup.set()
