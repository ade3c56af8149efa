"""The sums of usage stay exact while records are rolled up."""

import asyncio
from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry

from beacon_contracts.ids import KeyId, UserId, new_uuid
from beacon_contracts.usage import UsageGroup
from beacon_runner.domain.usage import InteractiveUsage, UsageSum, usage_query
from beacon_runner.maintenance.usage_roll_up import UsageRollUpLoop
from beacon_runner.metrics import LoopMetrics
from beacon_runner.postgres.usage import PostgresUsage
from tests.fixtures.waiting import until
from tests.integration.runner_store.harness import StoreHarness

USER, OTHER, KEY = UserId(new_uuid()), UserId(new_uuid()), KeyId(new_uuid())


def a_run(user: UserId = USER, model: str = "flux", *, failed: bool = False) -> InteractiveUsage:
    return InteractiveUsage(user, KEY, model, "US", 1.0, 2.0, 3.0, 10, 20, failed)


def loop(store: PostgresUsage, batch: int = 100) -> UsageRollUpLoop:
    return UsageRollUpLoop(store, LoopMetrics(CollectorRegistry()), batch)


async def sums(store: PostgresUsage, user: UserId | None, *groups: UsageGroup) -> list[UsageSum]:
    return await store.sums(usage_query(user, groups, None, None, datetime.now(UTC)), 100)


async def test_the_sums_are_the_same_before_and_after_the_roll_up(harness: StoreHarness) -> None:
    store = PostgresUsage(harness.database)
    for model in ("flux", "flux", "sdxl"):
        await store.add_interactive(a_run(model=model))
    await store.add_interactive(a_run(OTHER))
    before = await sums(store, USER, UsageGroup.MODEL)
    assert [(one.model, one.runs, one.run_s, one.tokens_in) for one in before] == [
        ("flux", 2, 6.0, 20),
        ("sdxl", 1, 3.0, 10),
    ]
    assert (await loop(store, 2).run_once()).more
    assert await sums(store, USER, UsageGroup.MODEL) == before, "partly rolled up"
    await loop(store).run_once()
    assert await sums(store, USER, UsageGroup.MODEL) == before
    assert (await loop(store).run_once()).count == 0
    assert sum(one.runs for one in await sums(store, None)) == 4


async def test_concurrent_roll_ups_count_each_record_once(harness: StoreHarness) -> None:
    store = PostgresUsage(harness.database)
    for _ in range(40):
        await store.add_interactive(a_run())
    await asyncio.gather(*(loop(store, 15).run_once() for _ in range(4)))
    await loop(store).run_once()
    (total,) = await sums(store, USER)
    assert (total.runs, total.tokens_out) == (40, 800)


async def test_a_roll_up_that_fails_changes_nothing(harness: StoreHarness) -> None:
    store = PostgresUsage(harness.database)
    await store.add_interactive(a_run())
    async with harness.database.transaction() as connection:
        await connection.execute("LOCK TABLE usage_hourly IN SHARE MODE")
        running = asyncio.create_task(store.roll_up(10))
        waits = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"
        await until(lambda: connection.fetchval(waits), "the roll-up waits for the lock")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    (total,) = await sums(store, USER)
    assert total.runs == 1


async def test_nothing_used_is_no_row(harness: StoreHarness) -> None:
    assert await sums(PostgresUsage(harness.database), USER) == []


async def test_a_period_has_full_hours() -> None:
    now = datetime(2026, 3, 1, 12, 34, tzinfo=UTC)
    query = usage_query(None, [], now - timedelta(minutes=90), None, now)
    assert (query.start.hour, query.end.hour) == (11, 13)
