"""A worker that is granted a new job begins it at once, and records nothing before Postgres knows that."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import GenerationJob
from beacon_lifecycle import ManualClock
from beacon_runner.application.publish_after_commit import Announcer
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.grants import LARGEST, grant_of
from beacon_runner.domain.messages import Message
from beacon_runner.domain.stage_result import ClaimedJob
from beacon_runner.postgres.claims import PostgresClaims
from beacon_runner.postgres.statements import statements
from beacon_runner.postgres.submissions import Submissions
from beacon_runner.wiring.loops import build_worker
from tests.fixtures.waiting import until
from tests.integration.runner_loops.bed import ALL_CLASSES, LoopBed, ScriptedExecutor, completed
from tests.integration.runner_loops.test_express import express_on
from tests.integration.runner_loops.test_handing import pool_on, text_of, waits

Meanwhile = Callable[[Message], Awaitable[object]]


async def nothing(_: Message) -> None: ...


class WatchedClaims:
    """The store, and what happens before it is asked to confirm something."""

    def __init__(self, claims: PostgresClaims, before: Meanwhile = nothing) -> None:
        self._claims = claims
        self._before = before
        self.claimed: list[JobId] = []
        self.confirmed: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claims, name)

    async def claim(self, messages: Sequence[Message], worker: str) -> Sequence[ClaimedJob]:
        self.claimed += [message.job for message in messages]
        return await self._claims.claim(messages, worker)

    async def confirm(self, message: Message, job: ClaimedJob, worker: str) -> bool:
        await self._before(message)
        self.confirmed.append(await self._claims.confirm(message, job, worker))
        return self.confirmed[-1]


@dataclass
class Scene:
    bed: LoopBed
    claims: WatchedClaims
    announce: Announcer

    async def submit(self, body: Any = None) -> JobId:
        """To a worker that waits for it."""
        await waits(self.bed)
        submissions = Submissions(self.bed.database, self.announce)
        (job,) = await self.bed.submit(submissions=submissions, body=body)
        return job


@asynccontextmanager
async def idle_worker(
    bed: LoopBed, executor: ScriptedExecutor, before: Meanwhile = nothing
) -> AsyncIterator[Scene]:
    await begin_era(bed)
    claims = WatchedClaims(bed.claims, before)
    async with bed.worker(executor, claims), express_on(bed, []) as announce:
        yield Scene(bed, claims, announce)


async def begin_era(bed: LoopBed) -> None:
    await bed.database.execute(statements("claim")["begin_era"])


async def granted_message(bed: LoopBed) -> Message:
    """One that was leased to the worker `w1`, with the fence that its job was stored with."""
    await begin_era(bed)
    async with express_on(bed, []) as announce:
        (job,) = await bed.submit(submissions=Submissions(bed.database, announce))
        (message,) = await until(lambda: bed.queue.claim(ALL_CLASSES, 1, "w1"), "it is in Redis")
    leased: Message = message
    return replace(leased, grant=grant_of(_as_stored(await bed.job(job))))


def _as_stored(row: Any) -> ClaimedJob:
    values = row["user_id"], row["lease"], row["ticket"], row["stage"], row["stages"], row["attempt"]
    return ClaimedJob(row["id"], *values, row["kind"], row["spec"], {}, row["tier"], front=False)


async def test_an_idle_worker_begins_new_jobs_without_a_claim(bed: LoopBed) -> None:
    async with idle_worker(bed, ScriptedExecutor(at_once=lambda *_: completed())) as scene:
        for _ in range(3):
            job = await scene.submit()
            assert await bed.ended(job) == ["completed"]
            assert (await bed.job(job))["deliveries"] == 1
    assert scene.claims.claimed == []
    assert scene.claims.confirmed == [True, True, True]
    await bed.nothing_left()


async def test_it_runs_while_postgres_is_told_and_is_recorded_after_that(bed: LoopBed) -> None:
    executor, told = ScriptedExecutor(at_once=lambda *_: completed()), asyncio.Event()
    async with idle_worker(bed, executor, before=lambda _: told.wait()) as scene:
        job = await scene.submit()
        await executor.started(1)
        row = await bed.job(job)
        assert (row["state"], row["deliveries"], row["started_at"]) == ("queued", 0, None)
        assert await bed.executions(job) == []
        told.set()
        assert await bed.ended(job) == ["completed"]


async def test_a_job_cancelled_before_it_was_confirmed_is_given_up(bed: LoopBed) -> None:
    async def cancel(message: Message) -> None:
        await bed.control.cancel(message.job, None)

    executor = ScriptedExecutor()
    async with idle_worker(bed, executor, before=cancel) as scene:
        job = await scene.submit()
        (run,) = await executor.started(1)
        await bed.nothing_left()
        assert run.given_up
        run.done(completed("too late"))
    assert scene.claims.confirmed == [False]
    assert (await bed.job(job))["state"] == "cancelled"
    assert await bed.executions(job) == []


async def test_a_job_that_another_worker_claimed_is_that_ones(bed: LoopBed) -> None:
    """As after a freeze that outlasted the lease."""
    taken: list[ClaimedJob] = []

    async def claim(message: Message) -> None:
        taken.extend(await bed.claims.claim([message], "other"))

    executor = ScriptedExecutor()
    async with idle_worker(bed, executor, before=claim) as scene:
        job = await scene.submit()
        (run, *_) = await executor.started(1)
        await until(lambda: run.given_up, "the run is given up")
        run.done(completed("from the loser"))
        # The message is given back, and here it is this worker who claims it next: under a higher fence.
        (_, again) = await executor.started(2)
        again.done(completed("from the winner"))
        assert await bed.ended(job) == ["completed"]
    assert run.job.fence < taken[0].fence < again.job.fence
    assert again.job.may_be_running
    assert [row["output"] for row in await bed.executions(job)] == ["from the winner"]


async def test_a_job_that_postgres_has_forgotten_is_dropped(bed: LoopBed) -> None:
    async def forget(message: Message) -> None:
        await bed.database.execute("DELETE FROM jobs WHERE id = $1", message.job)

    executor = ScriptedExecutor()
    async with idle_worker(bed, executor, before=forget) as scene:
        await scene.submit()
        (run,) = await executor.started(1)
        await until(lambda: run.given_up, "the run is given up")
        await bed.nothing_left()


async def test_a_job_that_could_not_be_confirmed_is_claimed_again(bed: LoopBed) -> None:
    async def fail(_: Message) -> None:
        raise StoreUnavailableError("Postgres is away")

    executor = ScriptedExecutor()
    async with idle_worker(bed, executor, before=fail) as scene:
        job = await scene.submit()
        (first, second) = await executor.started(2)
        assert first.given_up
        assert second.job.may_be_running
        second.done(completed())
        assert await bed.ended(job) == ["completed"]
    assert scene.claims.claimed == [job]
    await bed.nothing_left()


async def test_a_redis_that_was_emptied_meanwhile_changes_nothing(bed: LoopBed) -> None:
    async def flush(_: Message) -> None:
        await bed.transport.redis.flushdb()

    executor = ScriptedExecutor(at_once=lambda *_: completed())
    async with idle_worker(bed, executor, before=flush) as scene:
        job = await scene.submit()
        assert await bed.ended(job) == ["completed"]
    assert len(executor.runs) == 1


async def test_a_message_that_the_relay_brings_again_runs_nothing_twice(bed: LoopBed) -> None:
    async def publish(_: Message) -> None:
        await bed.database.execute("UPDATE outbox SET created_at = created_at - interval '2 seconds'")
        await bed.publish()

    executor = ScriptedExecutor(at_once=lambda *_: completed())
    async with idle_worker(bed, executor, before=publish) as scene:
        job = await scene.submit()
        assert await bed.ended(job) == ["completed"]
        await bed.nothing_left()
    assert len(executor.runs) == 1


async def test_a_large_input_is_read_from_postgres(bed: LoopBed) -> None:
    body = GenerationJob(kind="generation", model="flux", prompt="x" * LARGEST, region="US")
    async with idle_worker(bed, ScriptedExecutor(at_once=lambda *_: completed())) as scene:
        job = await scene.submit(body)
        assert await bed.ended(job) == ["completed"]
    assert scene.claims.claimed == [job]
    assert scene.claims.confirmed == []


async def test_a_worker_that_stops_keeps_nothing_that_is_not_confirmed(
    database_url: str, redis_url: str
) -> None:
    async with LoopBed.on(database_url, redis_url, clock=ManualClock()) as bed:
        executor = ScriptedExecutor()
        worker, listener = build_worker(bed.transport, bed.claims, executor)
        await worker.start()
        await listener.start()
        await waits(bed)
        (idle,) = await bed.transport.redis.zrange(bed.transport.layout.idle, 0, -1)
        await listener.stop()
        message = await granted_message(bed)
        await bed.queue.nack([message], "w1")
        (leased,) = await bed.queue.claim(ALL_CLASSES, 1, str(idle).partition("\n")[0])
        worker.hand(f"{text_of(leased)}\n{message.grant}")  # type: ignore[attr-defined]
        assert len(executor.runs) == 1
        await worker.stop()
        assert executor.runs[0].given_up
        assert (await bed.job(message.job))["state"] == "queued"
        assert [found.job for found in await bed.queue.claim(ALL_CLASSES, 1, "another")] == [message.job]


async def test_a_pool_that_stood_still_begins_nothing(database_url: str, redis_url: str) -> None:
    clock = ManualClock()
    async with LoopBed.on(database_url, redis_url, clock=clock) as bed, pool_on(bed) as (pool, executor):
        await pool.run_once()
        message = await granted_message(bed)
        await clock.advance(bed.config.runner.lease_s * 0.6)
        pool.hand(message)
        await pool.run_once()
        assert executor.runs == []
        assert [found.job for found in await bed.queue.claim(ALL_CLASSES, 1, "w2")] == [message.job]


async def test_a_pool_without_a_free_slot_begins_nothing(bed: LoopBed) -> None:
    async with pool_on(bed, slots=1) as (pool, executor):
        first, second = await granted_message(bed), await granted_message(bed)
        pool.hand(first)
        pool.hand(second)
        await pool.run_once()
        await pool.run_once()
        assert [run.job.id for run in executor.runs] == [first.job]
        assert [found.job for found in await bed.queue.claim(ALL_CLASSES, 2, "w2")] == [second.job]


async def test_a_pool_that_claims_at_the_moment_begins_what_fits_when_it_has_claimed(bed: LoopBed) -> None:
    async with pool_on(bed, slots=1) as (pool, executor):
        handed = await granted_message(bed)
        claiming = asyncio.ensure_future(pool.run_once())
        await asyncio.sleep(0)
        pool.hand(handed)
        assert executor.runs == []
        await claiming
        await pool.run_once()
        assert [run.job.id for run in executor.runs] == [handed.job]
        assert (await bed.job(handed.job))["worker"] == "w1"


async def test_a_pool_that_has_claimed_all_it_can_returns_what_it_was_handed(bed: LoopBed) -> None:
    async with pool_on(bed, slots=1) as (pool, executor):
        handed = await granted_message(bed)
        (waiting,) = await bed.queued()
        claiming = asyncio.ensure_future(pool.run_once())
        await asyncio.sleep(0)
        pool.hand(handed)
        await claiming
        await pool.run_once()
        assert [run.job.id for run in executor.runs] == [waiting]
        assert [found.job for found in await bed.queue.claim(ALL_CLASSES, 2, "w2")] == [handed.job]
