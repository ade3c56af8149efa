"""The memory of a waiting job in Redis."""

from beacon_contracts.ids import JobId, new_uuid
from beacon_contracts.tiers import JobClass
from beacon_redis import RedisAddress
from beacon_runner.domain.queue.messages import Message, OutboxEntry, Topic
from beacon_runner.redis_queue import Layout, RedisQueue

JOBS = 20_000


async def test_a_waiting_job_takes_less_than_half_a_kilobyte(redis_url: str) -> None:
    async with RedisAddress(redis_url).open() as redis:
        queue = RedisQueue(redis, Layout(), lease_s=60)
        users = [new_uuid().hex for _ in range(JOBS // 10)]
        waiting = [
            OutboxEntry(
                Topic.JOBS, Message(JobId(new_uuid()), 1, 0, 1, JobClass.LOW, users[number % len(users)])
            )
            for number in range(JOBS)
        ]
        await queue.push(waiting)
        async with redis.pipeline(transaction=False) as pipeline:
            async for key in redis.scan_iter(count=1000):
                pipeline.memory_usage(key, samples=0)
            taken = sum(await pipeline.execute())
    assert 100 < taken / JOBS <= 512
