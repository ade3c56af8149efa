"""The short way to Redis: quick when all is well, and never the only one."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from redis.exceptions import ConnectionError as RedisConnectionError

from beacon_contracts.ids import JobId
from beacon_runner.application.publish_after_commit import Announcer
from beacon_runner.domain.messages import OutboxEntry
from beacon_runner.maintenance.inline_publisher import LARGEST_GROUP, Express
from beacon_runner.postgres.submissions import Submissions
from tests.fixtures.waiting import until
from tests.integration.runner_loops.bed import ALL_CLASSES, LoopBed


class Unreachable:
    def begin_push(self, entry: OutboxEntry) -> None: ...

    async def push(self, entries: Sequence[OutboxEntry]) -> int:
        raise RedisConnectionError(f"nobody takes {len(entries)} messages")


@asynccontextmanager
async def express_on(bed: LoopBed, rung: list[str], queue: object = None) -> AsyncIterator[Announcer]:
    def ring() -> None:
        rung.append("rung")

    transport = bed.transport
    express = Express(queue or bed.queue, bed.outbox, ring, transport.clock, transport.metrics)  # type: ignore[arg-type]
    await express.start()
    try:
        yield Announcer(express, ring)
    finally:
        await express.stop()


async def submitted(bed: LoopBed, announce: Announcer, count: int) -> list[JobId]:
    return await bed.submit(count, submissions=Submissions(bed.database, announce))


async def a_second_later(bed: LoopBed) -> None:
    """The relay leaves the rows of the express alone for a second."""
    await bed.database.execute("UPDATE outbox SET created_at = created_at - interval '2 seconds'")


async def claimed(bed: LoopBed) -> list[JobId]:
    return [message.job for message in await bed.queue.claim(ALL_CLASSES, 1_000, "w")]


async def test_a_few_new_jobs_reach_redis_without_the_relay_and_leave_the_outbox(bed: LoopBed) -> None:
    rung: list[str] = []
    async with express_on(bed, rung) as announce:
        jobs = await submitted(bed, announce, 3)
        assert await until(lambda: claimed(bed), "the jobs are in Redis") == jobs
    assert (await bed.outbox.lag()).entries == 0
    assert rung == []


async def test_many_at_once_are_left_to_the_relay(bed: LoopBed) -> None:
    rung: list[str] = []
    async with express_on(bed, rung) as announce:
        await submitted(bed, announce, LARGEST_GROUP + 1)
    assert rung == ["rung"]
    assert await bed.publish() == LARGEST_GROUP + 1


async def test_what_redis_did_not_take_waits_in_the_outbox(bed: LoopBed) -> None:
    async with express_on(bed, [], Unreachable()) as announce:
        jobs = await submitted(bed, announce, 2)
    await a_second_later(bed)
    assert await bed.publish() == 2
    assert await claimed(bed) == jobs


async def test_a_process_that_dies_after_the_push_does_no_harm(bed: LoopBed) -> None:
    """Its rows are still in the outbox: the relay pushes them again."""
    async with express_on(bed, []) as announce:
        jobs = await submitted(bed, announce, 2)
        await until(lambda: bed.transport.redis.hlen("jobs:live"), "the jobs are in Redis")
        await a_second_later(bed)
        await bed.publish()
    assert await claimed(bed) == jobs
