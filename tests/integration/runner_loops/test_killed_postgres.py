"""Postgres killed with -9 after a claim was committed: the job ends, and its result is recorded once."""

from collections.abc import AsyncIterator, Sequence

import pytest

from beacon_devstack.secret_store import Secrets
from beacon_devstack.servers.postgres import DURABLE, EmbeddedPostgres
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.execution.stage_result import ClaimedJob
from beacon_runner.domain.queue.messages import Message
from beacon_runner.migrations import migrate
from tests.fixtures.scratch import scratch_home
from tests.fixtures.waiting import until
from tests.integration.runner_loops.harness import LoopHarness, ScriptedExecutor, completed


@pytest.fixture
async def postgres() -> AsyncIterator[EmbeddedPostgres]:
    """A server of its own, with fsync and synchronous_commit on."""
    with scratch_home() as home:
        password = Secrets.fresh().postgres_password
        async with EmbeddedPostgres(home, password=password, settings=DURABLE) as server:
            await migrate.upgrade(server.url)
            yield server


async def test_a_job_claimed_before_postgres_was_killed_ends_once(
    postgres: EmbeddedPostgres, redis_url: str
) -> None:
    executor = ScriptedExecutor()
    async with LoopHarness.on(postgres.url, redis_url) as harness:
        (job,) = await harness.queued()
        async with harness.worker(executor):
            (run,) = await executor.started(1)  # the claim is committed
            await postgres.kill()
            run.done(completed("once"))  # the result arrives while Postgres is down
            await postgres.start()
            assert await harness.ended(job) == ["completed"]
            await harness.nothing_left()
        assert len(executor.runs) == 1
        row = await harness.job(job)
        assert (row["fence"], row["deliveries"]) == (run.job.fence, 1)
        assert [one["state"] for one in await harness.executions(job)] == ["completed"]
        assert await _end_events(harness) == 1


async def test_a_claim_survives_the_death_of_postgres_and_the_worker(
    postgres: EmbeddedPostgres, redis_url: str
) -> None:
    """The fence was committed durably, so the next claim gets a higher one."""
    async with LoopHarness.on(postgres.url, redis_url) as harness:
        (job,) = await harness.queued()
        messages = await harness.queue.claim(list(harness.transport.layout.classes), 1, "first")
        (first,) = await harness.claims.claim(messages, "first")
        await postgres.kill()
        await postgres.start()
        (second,) = await until(lambda: _claimed_again(harness, messages), "Postgres answers")
        assert (second.id, second.fence) == (job, first.fence + 1)


async def _claimed_again(harness: LoopHarness, messages: Sequence[Message]) -> Sequence[ClaimedJob]:
    """Empty while connections that the server closed are replaced."""
    try:
        return await harness.claims.claim(messages, "second")
    except StoreUnavailableError:
        return []


async def _end_events(harness: LoopHarness) -> int:
    """How many events report the end of the job."""
    return int(
        await harness.database.fetchval(
            "SELECT count(*) FROM job_events, json_array_elements(events) AS event "
            "WHERE event ->> 'type' = 'JOB_COMPLETE'"
        )
    )
