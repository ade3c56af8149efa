"""Claims do not wait for the disk; still no fence is given out twice, whatever a crash forgets."""

import asyncio

from beacon_devstack.postgres import FAST, EmbeddedPostgres
from beacon_devstack.secret_store import Secrets
from beacon_runner.migrations import migrate
from beacon_runner.postgres.database import Database
from tests.fixtures.scratch import scratch_home
from tests.integration.runner_store.bed import Bed, judged

# So that a crash really forgets: nobody else writes the log out soon.
FORGETFUL = {**FAST, "wal_writer_delay": "10s", "synchronous_commit": "on"}
FORGET_CLAIM = "UPDATE jobs SET lease = 0, state = 'queued', deliveries = 0, worker = NULL"


async def test_after_kill_9_of_postgres_no_fence_comes_back() -> None:
    with scratch_home() as home:
        password = Secrets.fresh().postgres_password
        async with EmbeddedPostgres(home, password=password, settings=FORGETFUL) as postgres:
            await migrate.upgrade(postgres.url)
            database = Database(postgres.url)
            await database.open()
            try:
                await _crash_after_a_claim(Bed(database), postgres)
            finally:
                await database.close()


async def _crash_after_a_claim(bed: Bed, postgres: EmbeddedPostgres) -> None:
    await bed.submit()
    messages = await bed.messages()
    (first,) = await bed.claims.claim(messages, "w1")
    await postgres.kill()
    await postgres.start()
    (second,) = await bed.claims.claim(messages, "w2")
    assert second.fence > first.fence
    assert await bed.claims.record([judged(first, "late")]) == frozenset()
    assert await bed.claims.record([judged(second, "good")]) == {second.id}


async def test_a_forgotten_claim_and_an_ended_era_begin_a_higher_one(bed: Bed) -> None:
    """The same, by hand: what a crash does to the two tables."""
    await bed.submit()
    messages = await bed.messages()
    (first,) = await bed.claims.claim(messages, "w1")
    await bed.database.execute(FORGET_CLAIM)
    await bed.database.execute("TRUNCATE current_era")
    (second,) = await bed.claims.claim(messages, "w2")
    assert second.fence > first.fence
    assert await bed.claims.record([judged(first, "late")]) == frozenset()


async def test_many_may_begin_the_era_at_once(bed: Bed) -> None:
    await bed.database.execute("TRUNCATE current_era")
    for _ in range(4):
        await bed.submit()
    messages = await bed.messages()
    claimed = await asyncio.gather(*(bed.claims.claim([message], "w") for message in messages))
    assert [len(jobs) for jobs in claimed] == [1, 1, 1, 1]
    assert len({jobs[0].fence for jobs in claimed}) == 1
