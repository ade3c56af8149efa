"""A message that nobody is before goes straight to a pool that waits, as if that had just claimed it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from beacon_contracts.tiers import JobClass
from beacon_lifecycle import SystemClock
from beacon_redis import RedisAddress, Subscriber
from beacon_runner.domain.messages import Message
from beacon_runner.redis_queue.keys import hand_channel
from beacon_runner.redis_queue.redis_queue import handed
from tests.conformance.runner_queue.bed import QueueBed, message

HIGH, MEDIUM, LOW = JobClass.HIGH, JobClass.MEDIUM, JobClass.LOW
Heard = list[tuple[str, Message]]


@pytest.fixture
async def bed(redis_url: str) -> AsyncIterator[QueueBed]:
    async with QueueBed.on(RedisAddress(redis_url)) as made:
        yield made


@asynccontextmanager
async def listening(bed: QueueBed, *workers: str) -> AsyncIterator[Heard]:
    """What these workers are handed, complete when the block has ended."""
    heard: Heard = []
    connected = asyncio.Event()

    async def on_connected() -> None:
        connected.set()

    def hear(text: str) -> None:
        if text:
            heard.append(handed(text))

    channels = {hand_channel(worker): hear for worker in workers}
    subscriber = Subscriber("test", bed.address, SystemClock(), channels, on_connected=on_connected)
    await subscriber.start()
    try:
        await connected.wait()
        yield heard
    finally:
        await subscriber.stop()


async def wait_in(
    bed: QueueBed, worker: str, pool: str, *classes: JobClass, limit: int = 5
) -> Sequence[Message]:
    return await bed.queue.claim(classes, limit, worker, pool)


async def test_a_pool_that_waits_gets_the_next_message_and_its_lease(bed: QueueBed) -> None:
    async with listening(bed, "w1") as heard:
        assert await wait_in(bed, "w1", "small", LOW) == []
        first = message()
        assert await bed.add(first) == 1
        assert await bed.loads("anna") == (0, 1)
        assert await bed.claim(worker="w2") == []
        assert await bed.add(first) == 0, "it is known"
    assert heard == [("small", first)]
    assert await bed.queue.extend([first], "w1") == []
    assert await bed.queue.ack([first]) == 1
    assert await bed.loads("anna") == (0, 0)


async def test_a_pool_waits_for_one_message_at_a_time(bed: QueueBed) -> None:
    async with listening(bed, "w1") as heard:
        await wait_in(bed, "w1", "small", LOW)
        first, second, third = message(), message(), message()
        await bed.add(first, second)
        await bed.add(third)
    assert heard == [("small", first)]
    assert await bed.claim() == [second, third]


async def test_what_is_handed_and_not_wanted_can_be_given_back(bed: QueueBed) -> None:
    async with listening(bed, "w1"):
        await wait_in(bed, "w1", "small", LOW)
        first = message()
        await bed.add(first)
    assert await bed.queue.nack([first], "w1") == 1
    assert await bed.claim(worker="w2") == [first]


async def test_what_a_dead_worker_was_handed_comes_back_with_its_lease(bed: QueueBed) -> None:
    brief = bed.laid_out(lease_s=0)
    async with listening(bed, "w1"):
        await wait_in(bed, "w1", "small", LOW)
        first = message()
        await brief.add(first)
    assert await bed.queue.reclaim(10) == [first]
    assert await bed.loads("anna") == (1, 0)


async def test_nobody_is_handed_what_nobody_would_hear(bed: QueueBed) -> None:
    """A worker that was killed waits in Redis still, but its connection is gone."""
    async with listening(bed, "w1"):
        await wait_in(bed, "w1", "small", LOW)
        await wait_in(bed, "dead", "small", LOW)
    first = message()
    await bed.add(first)
    assert await bed.claim(worker="w2") == [first]
    assert not await bed.redis.exists(bed.layout.idle)


async def test_a_worker_that_stands_still_is_handed_nothing(bed: QueueBed) -> None:
    async with listening(bed, "w1") as heard:
        await wait_in(bed, "w1", "small", LOW)
        await bed.redis.zincrby(bed.layout.idle, -10_000, "w1\nsmall\nlow")
        await bed.add(message())
    assert heard == []
    assert len(await bed.claim(worker="w2")) == 1


async def test_who_got_all_that_was_asked_for_does_not_wait(bed: QueueBed) -> None:
    async with listening(bed, "w1") as heard:
        await wait_in(bed, "w1", "small", LOW)
        await bed.add(message(job_class=MEDIUM))  # nobody waits for this one
        await bed.add(message())
        assert len(await wait_in(bed, "w1", "small", LOW, limit=1)) == 1
        await bed.claim(worker="w2")
        await bed.add(message())
    assert heard == []


async def test_the_pool_of_the_class_comes_before_those_that_help(bed: QueueBed) -> None:
    async with listening(bed, "w1", "w2") as heard:
        await wait_in(bed, "w1", "high", HIGH)
        await wait_in(bed, "w2", "medium", MEDIUM, HIGH)
        await wait_in(bed, "w2", "low", LOW)
        first, second = message(job_class=HIGH), message(job_class=HIGH)
        for one in (first, second):
            await bed.add(one)
        await bed.add(message(job_class=HIGH))
    assert heard == [("high", first), ("medium", second)]


async def test_nothing_overtakes_what_waits(bed: QueueBed) -> None:
    before, after = message("anna"), message("bert")
    await bed.add(before)
    async with listening(bed, "w1") as heard:
        await wait_in(bed, "w1", "small", MEDIUM)
        await bed.add(after)
        await bed.add(message(job_class=MEDIUM))
    assert heard == []
    assert await bed.claim(limit=3, worker="w2") != []


async def test_a_paused_class_is_handed_to_nobody(bed: QueueBed) -> None:
    async with listening(bed, "w1") as heard:
        await wait_in(bed, "w1", "small", LOW)
        await bed.desk.pause(LOW)
        await bed.add(message())
    assert heard == []


async def test_what_was_paid_to_go_first_waits_in_front(bed: QueueBed) -> None:
    async with listening(bed, "w1") as heard:
        await wait_in(bed, "w1", "small", LOW)
        paid = message()
        await bed.add(paid, front=True)
    assert heard == []
    assert await bed.claim() == [paid]
