"""What a worker makes of grants that come late, together, or while Postgres or Redis is away."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from redis.exceptions import ConnectionError as RedisConnectionError

from beacon_lifecycle import ManualClock
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.messages import Message, OutboxEntry, Topic
from beacon_runner.postgres.submissions import Submissions
from tests.fixtures.waiting import until
from tests.integration.runner_loops.bed import ALL_CLASSES, LoopBed
from tests.integration.runner_loops.test_express import express_on
from tests.integration.runner_loops.test_grants import WatchedClaims, begin_era, granted_message
from tests.integration.runner_loops.test_handing import Watched, pool_on


async def test_a_confirmation_that_fails_costs_the_others_nothing(bed: LoopBed) -> None:
    first, second = await granted_message(bed), await granted_message(bed)

    async def fail_for_the_first(message: Message) -> None:
        if message.job == first.job:
            raise StoreUnavailableError("Postgres was away for a moment")

    claims = WatchedClaims(bed.claims, before=fail_for_the_first)
    async with pool_on(bed, claims=claims) as (pool, executor):
        pool.hand(first)
        pool.hand(second)
        try:
            await pool.run_once()
        except StoreUnavailableError:
            await pool.run_once()
        assert [run.given_up for run in executor.runs] == [True, False]
        assert claims.confirmed == [True]
        assert (await bed.job(second.job))["state"] == "processing"
        assert [found.job for found in await bed.queue.claim(ALL_CLASSES, 2, "w2")] == [first.job]


async def test_what_was_let_go_of_before_its_confirmation_is_not_confirmed(bed: LoopBed) -> None:
    """The heartbeat has heard that another worker has the message."""
    claims = WatchedClaims(bed.claims)
    async with pool_on(bed, claims=claims) as (pool, executor):
        message = await granted_message(bed)
        pool.hand(message)
        pool._intake.bench.let_go(message.job)
        await pool.run_once()
        assert executor.runs[0].given_up
    assert claims.confirmed == []
    assert (await bed.job(message.job))["deliveries"] == 0


async def test_a_grant_takes_nothing_from_a_delivery_that_runs_here(bed: LoopBed) -> None:
    """It was long on its way: the relay brought the message too, and the job has come further since."""
    async with pool_on(bed) as (pool, executor):
        late = await granted_message(bed)
        await bed.queue.ack([late])
        await bed.database.execute("UPDATE jobs SET ticket = 2 WHERE id = $1", late.job)
        newer = replace(late, ticket=2, written_id="", grant="")
        await bed.queue.push([OutboxEntry(Topic.JOBS, newer)])
        await pool.run_once()
        pool.hand(late)
        await pool.run_once()
        (run,) = executor.runs
        assert run.job.ticket == 2
        assert not run.given_up


class Unreturnable(Watched):
    async def nack(self, messages: Sequence[Message], worker: str) -> int:
        raise RedisConnectionError(f"nobody takes {len(messages)} messages of {worker} back")


async def test_what_redis_does_not_take_back_is_left_to_its_lease(bed: LoopBed) -> None:
    """A worker that stops goes on with stopping, and writes what it has."""
    message = await granted_message(bed)
    bed.transport.queue = Unreturnable(bed.queue)  # type: ignore[assignment]
    async with pool_on(bed) as (pool, executor):
        pool.hand(message)
        await pool.return_handed()
        assert executor.runs[0].given_up


@dataclass
class HeldUp:
    """A way to Redis that is blocked for a while; keeps what goes there."""

    free: asyncio.Event = field(default_factory=asyncio.Event)
    pushed: list[OutboxEntry] = field(default_factory=list)

    def begin_push(self, entry: OutboxEntry) -> None: ...

    async def push(self, entries: Sequence[OutboxEntry]) -> int:
        self.pushed += entries
        await self.free.wait()
        return len(entries)


async def test_a_grant_that_was_held_up_stays_behind(database_url: str, redis_url: str) -> None:
    """The relay may have brought the message by now, and the job may be over: nobody may begin it again."""
    clock, way = ManualClock(datetime.now(UTC)), HeldUp()
    async with LoopBed.on(database_url, redis_url, clock=clock) as bed, express_on(bed, [], way) as announce:
        await begin_era(bed)
        submissions = Submissions(bed.database, announce)
        (first,) = await bed.submit(submissions=submissions)
        await until(lambda: way.pushed, "the first is on its way")
        (second,) = await bed.submit(submissions=submissions)
        await clock.advance(1.0)
        way.free.set()
        await until(lambda: len(way.pushed) == 2, "the second is on its way")
    assert [(one.message.job, bool(one.message.grant)) for one in way.pushed] == [
        (first, True),
        (second, False),
    ]
