"""One pub/sub connection for all channels of a process, opened again whenever it is lost."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import structlog
from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as RedisConnectionError

from beacon_lifecycle import Clock, TaskSet
from beacon_redis.address import RedisAddress
from beacon_redis.errors import REDIS_ERRORS

log = structlog.get_logger(__name__)

Handler = Callable[[str], None]

PING_AFTER_S = 5.0
RECONNECT_AFTER_S = 0.2
DRAIN_TIMEOUT_S = 1.0

# Subscribed last, so that its confirmation follows all others. Nothing is published in it.
_LAST_CHANNEL = "beacon:subscriber"


async def _do_nothing() -> None: ...


class Subscriber:
    """A service that passes each message to the handler of its channel.

    Messages published without a connection are lost. A handler is therefore also called with an empty
    message whenever the subscription to its channel begins; it has to read the state again.
    `on_connected` is awaited when all channels are subscribed.
    """

    def __init__(
        self,
        name: str,
        address: RedisAddress,
        clock: Clock,
        channels: Mapping[str, Handler] | None = None,
        *,
        on_connected: Callable[[], Awaitable[None]] = _do_nothing,
    ) -> None:
        self.name = name
        self._client = address.open_for_subscriptions()
        self._clock = clock
        self._handlers: dict[str, Handler] = dict(channels or {})
        self._on_connected = on_connected
        self._changed = asyncio.Event()
        self._stopping = False
        self._pubsub: PubSub | None = None
        self._tasks = TaskSet(name)

    def add(self, channel: str, handler: Handler) -> None:
        """Subscribe to a channel. The handler gets an empty message when the subscription begins."""
        self._handlers[channel] = handler
        self._changed.set()

    def remove(self, channel: str) -> None:
        del self._handlers[channel]
        self._changed.set()

    async def start(self) -> None:
        """Return without waiting for the server."""
        self._tasks.spawn("receive", self._receive_until_stopped())

    async def wait(self) -> None:
        await self._tasks.failed.wait()
        raise RuntimeError(f"{self.name} ended") from self._tasks.failure

    async def stop(self) -> None:
        """Handle messages that were published before, if they arrive in time, and disconnect."""
        self._stopping = True
        if self._pubsub is not None and self._pubsub.subscribed:
            with suppress(*REDIS_ERRORS):
                await self._pubsub.unsubscribe()  # the receiver ends with the last confirmation
                await self._tasks.drain(DRAIN_TIMEOUT_S)
        await self._tasks.close()
        await self._client.aclose()

    async def _receive_until_stopped(self) -> None:
        while not self._stopping:
            try:
                await self._receive()
            except REDIS_ERRORS as error:
                log.info("subscriber_disconnected", subscriber=self.name, error=str(error))
                await self._clock.sleep(RECONNECT_AFTER_S)

    async def _receive(self) -> None:
        async with self._client.pubsub() as pubsub:
            self._changed.clear()
            subscribed = set(self._handlers)
            await pubsub.subscribe(*subscribed, _LAST_CHANNEL)
            if self._stopping:  # redis-py may swallow a cancellation while it connects
                return
            self._pubsub = pubsub
            updates = self._tasks.spawn("update", self._update(pubsub, subscribed))
            try:
                await self._read(pubsub)
            finally:
                self._pubsub = None
                updates.cancel()

    async def _read(self, pubsub: PubSub) -> None:
        pinged = False
        while pubsub.subscribed:
            message = await pubsub.get_message(timeout=PING_AFTER_S)
            if message is None:
                if pinged:
                    raise RedisConnectionError(f"no reply to PING within {PING_AFTER_S:g} s")
                pinged = True
                await pubsub.ping()
                continue
            pinged = False
            kind, channel = message["type"], message["channel"]
            if kind == "subscribe" and channel == _LAST_CHANNEL:
                await self._on_connected()
            elif kind in ("message", "subscribe") and (handler := self._handlers.get(channel)):
                handler(message["data"] if kind == "message" else "")

    async def _update(self, pubsub: PubSub, subscribed: set[str]) -> None:
        """Subscribe to channels that were added, and unsubscribe from those that were removed."""
        with suppress(*REDIS_ERRORS):  # the reader of the same connection fails as well
            while True:
                await self._changed.wait()
                self._changed.clear()
                wanted = set(self._handlers)
                if added := wanted - subscribed:
                    await pubsub.subscribe(*added)
                if removed := subscribed - wanted:
                    await pubsub.unsubscribe(*removed)
                subscribed = wanted
