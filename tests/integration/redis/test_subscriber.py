"""One pub/sub connection for all channels: delivery, added and removed channels, reconnects, stopping."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from beacon_lifecycle import SystemClock
from beacon_redis import RedisAddress, Subscriber
from tests.fixtures.redis_server import redis_server
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until


class Inbox:
    """What one handler was called with."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self._changed = asyncio.Event()

    def __call__(self, message: str) -> None:
        self.messages.append(message)
        self._changed.set()

    async def until(self, condition: Callable[[list[str]], bool]) -> None:
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while not condition(self.messages):
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def running(subscriber: Subscriber) -> AsyncIterator[Subscriber]:
    await subscriber.start()
    try:
        yield subscriber
    finally:
        await subscriber.stop()


async def subscribers(address: RedisAddress, *channels: str) -> int:
    async with address.open() as redis:
        return sum(count for _, count in await redis.pubsub_numsub(*channels))


async def test_each_message_reaches_the_handler_of_its_channel(redis_url: str) -> None:
    left, right = Inbox(), Inbox()
    address = RedisAddress(redis_url)
    subscriber = Subscriber("test", address, SystemClock(), {"test:left": left, "test:right": right})
    texts = [f"{number} ü\r\n" for number in range(100)]
    async with address.open() as other, running(subscriber):
        await right.until(lambda messages: messages == [""])
        await left.until(lambda messages: messages == [""])
        for text in texts:
            await other.publish("test:left", text)
        await other.publish("test:right", "one")
    assert left.messages == ["", *texts], "messages published before the stop are handled"
    assert right.messages == ["", "one"]
    assert await subscribers(address, "test:left", "test:right") == 0


async def test_channels_are_added_and_removed_while_it_runs(redis_url: str) -> None:
    first, second = Inbox(), Inbox()
    address = RedisAddress(redis_url)

    async def unsubscribed() -> bool:
        return await subscribers(address, "test:first") == 0

    async with address.open() as other, running(Subscriber("test", address, SystemClock())) as subscriber:
        subscriber.add("test:first", first)
        await first.until(lambda messages: messages == [""])
        await other.publish("test:first", "a")
        await first.until(lambda messages: messages == ["", "a"])
        subscriber.remove("test:first")
        subscriber.add("test:second", second)
        await second.until(lambda messages: messages == [""])
        await until(unsubscribed, "the removed channel is unsubscribed")
        await other.publish("test:second", "b")
        await second.until(lambda messages: messages == ["", "b"])
    assert first.messages == ["", "a"]


async def test_a_lost_connection_is_opened_again_and_reported(tmp_path: Path) -> None:
    inbox, connected = Inbox(), Inbox()

    async def on_connected() -> None:
        connected("connected")

    with redis_server(tmp_path) as server:
        address = RedisAddress(server.url)
        subscriber = Subscriber(
            "test", address, SystemClock(), {"test:one": inbox}, on_connected=on_connected
        )
        async with running(subscriber):
            await connected.until(lambda messages: len(messages) == 1)
            server.restart()
            await connected.until(lambda messages: len(messages) == 2)
            assert inbox.messages == ["", ""]
            async with address.open() as other:
                await other.publish("test:one", "again")
            await inbox.until(lambda messages: messages[-1] == "again")


async def test_all_channels_are_subscribed_before_on_connected(redis_url: str) -> None:
    address = RedisAddress(redis_url)
    channels = {f"test:{number}": Inbox() for number in range(50)}
    counts = Inbox()

    async def on_connected() -> None:
        counts(str(await subscribers(address, *channels)))

    subscriber = Subscriber("test", address, SystemClock(), channels, on_connected=on_connected)
    async with running(subscriber):
        await counts.until(lambda messages: messages == ["50"])


async def test_an_unreachable_server_does_not_delay_start_and_stop() -> None:
    subscriber = Subscriber("test", RedisAddress("redis://127.0.0.1:1"), SystemClock())
    async with asyncio.timeout(WAIT_TIMEOUT_S), running(subscriber):
        pass
