"""Renews the leases of a process from a separate thread, so that a busy event loop does not lose them."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence

import structlog

from beacon_lifecycle import Clock
from beacon_runner.domain.errors import QueueUnavailableError
from beacon_runner.domain.queue.messages import Message
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.leases import LeaseRenewal

log = structlog.get_logger(__name__)


class Heartbeat:
    """Renews the leases of held messages.

    If no heartbeat succeeded within the lease, `alive` is false and the process must not claim: its messages
    may be leased by another worker already.

    `on_lost` is called on the event loop with the ids of messages that another worker has leased. The
    messages that it returns are not renewed any more.
    """

    def __init__(
        self,
        leases: LeaseRenewal,
        clock: Clock,
        metrics: LoopMetrics,
        *,
        on_lost: Callable[[Sequence[str]], Iterable[Message]],
        lease_s: float,
        every_s: float,
    ) -> None:
        self._leases = leases
        self._clock = clock
        self._metrics = metrics
        self._lease_s = lease_s
        self._every_s = every_s
        self._on_lost = on_lost
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: dict[str, Message] = {}
        self._renewed_at = clock.now()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_stopped, name="heartbeat", daemon=True)

    @property
    def alive(self) -> bool:
        return self._clock.now() - self._renewed_at < self._lease_s

    def hold(self, messages: Iterable[Message]) -> None:
        self._held.update([(message.id, message) for message in messages])

    def drop(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._held.pop(message.id, None)

    def start(self) -> None:
        """Called on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._renewed_at = self._clock.now()
        self._thread.start()

    def stop(self) -> None:
        """Blocks until the thread has ended; idempotent."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._leases.close()

    def beat(self) -> None:
        """Renew everything once."""
        began_at = self._clock.now()
        self._renew(list(self._held.values()))  # atomic: the event loop cannot change it meanwhile
        self._renewed_at = began_at

    def _renew(self, held: Sequence[Message]) -> None:
        renewal = self._leases.renew(held)
        if renewal.lost and self._loop is not None:
            self._loop.call_soon_threadsafe(self._drop_lost, renewal.lost)
        # The event loop drops a message before it acknowledges it in Redis: messages that were dropped in the
        # meantime have been restored by mistake.
        if dropped := self._dropped(renewal.restored):
            self._leases.ack(dropped)
        if dropped := self._dropped(renewal.retaken):
            self._leases.nack(dropped)

    def _drop_lost(self, message_ids: Sequence[str]) -> None:
        self.drop(self._on_lost(message_ids))

    def _dropped(self, message_ids: Sequence[str]) -> list[str]:
        return [message_id for message_id in message_ids if message_id not in self._held]

    def _beat_until_stopped(self) -> None:
        while not self._stopping.wait(self._every_s):
            try:
                self.beat()
            except QueueUnavailableError as error:
                self._metrics.heartbeat_failures.inc()
                log.warning("heartbeat_failed", error=str(error), alive=self.alive)
            except Exception:  # a worker without a heartbeat would stop claiming unnoticed
                self._metrics.heartbeat_failures.inc()
                log.exception("heartbeat_failed_unexpectedly", alive=self.alive)
