"""The sums of usage stay exact while records are rolled up."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from beacon_contracts.accounts import DisabledJobs
from beacon_contracts.ids import JobId, KeyId, UserId, new_uuid
from beacon_contracts.inference import InferenceState, InferenceView, Timing
from beacon_contracts.usage import UsageGroup
from beacon_runner.domain.accounts.usage import InteractiveUsage, UsageSum, usage_query
from beacon_runner.domain.execution.plan import execution_keys
from beacon_runner.maintenance.usage_roll_up import UsageRollUpLoop
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.cancels import CancelledRun
from beacon_runner.postgres.accounts.usage import PostgresUsage
from beacon_runner.postgres.accounts.user_jobs import stop_jobs
from beacon_runner.postgres.jobs.schedule import PostgresSchedule
from tests.fixtures.waiting import until
from tests.integration.runner_store.harness import GENERATION, StoreHarness, judged
from tests.integration.runner_store.harness import USER as HARNESS_USER

USED = "SELECT user_id, key_id, model, region, failed, tags, run_s FROM usage_records ORDER BY id"
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
        await store.add_interactive([a_run(model=model)])
    await store.add_interactive([a_run(OTHER)])
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
        await store.add_interactive([a_run()])
    await asyncio.gather(*(loop(store, 15).run_once() for _ in range(4)))
    await loop(store).run_once()
    (total,) = await sums(store, USER)
    assert (total.runs, total.tokens_out) == (40, 800)


async def test_a_roll_up_that_fails_changes_nothing(harness: StoreHarness) -> None:
    store = PostgresUsage(harness.database)
    await store.add_interactive([a_run()])
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


async def used(harness: StoreHarness) -> list[tuple[Any, ...]]:
    """What is recorded and not rolled up."""
    rows = await harness.database.fetch(USED)
    return [tuple(row) for row in rows]


async def test_the_result_of_a_run_is_counted_with_it_once(harness: StoreHarness) -> None:
    key = KeyId(new_uuid())
    labels = {"tags": ["b", "a"]}
    await harness.submit(GENERATION._replace(labels=labels), key=key)
    claimed = await harness.claim()
    report = await harness.run(claimed, "done")
    assert await harness.claims.record([report]) == frozenset(), "the report of a job that has ended"
    ((user, of, model, region, failed, tags, run_s),) = await used(harness)
    assert (user, of, model, region, failed, tags) == (HARNESS_USER, key, "flux", "US", False, ["a", "b"])
    assert run_s > 0


async def stopped_by_cancel(harness: StoreHarness, job: JobId) -> None:
    await harness.cancel(job)


async def stopped_by_expiry_and_resumed(harness: StoreHarness, job: JobId) -> None:
    await harness.database.execute("UPDATE jobs SET expires_at = now()")
    await PostgresSchedule(harness.database).expire(10)
    await harness.jobs.resume(job, HARNESS_USER)


async def stopped_by_expiry_and_claimed_again(harness: StoreHarness, job: JobId) -> None:
    await stopped_by_expiry_and_resumed(harness, job)
    await harness.start(await harness.claim())


async def stopped_by_hold(harness: StoreHarness, _: JobId) -> None:
    async with harness.database.transaction() as connection:
        await stop_jobs(connection, HARNESS_USER, DisabledJobs.HOLD)


@pytest.mark.parametrize(
    "stop",
    [
        stopped_by_cancel,
        stopped_by_expiry_and_resumed,
        stopped_by_expiry_and_claimed_again,
        stopped_by_hold,
    ],
)
async def test_a_run_that_a_router_has_stopped_is_counted(
    harness: StoreHarness, stop: Callable[[StoreHarness, JobId], Coroutine[Any, Any, None]]
) -> None:
    """Whatever its job does since."""
    job = await harness.submit()
    claimed = await harness.start(await harness.claim())
    await stop(harness, job)
    (execution,) = execution_keys(claimed.spec)
    timing = Timing(queued_s=1.0, load_s=2.0, run_s=3.0)
    view = InferenceView(
        request_id="x",
        state=InferenceState.CANCELLED,
        model="flux",
        requested_region="US",
        actual_region="EU",
        backend="eu-1",
        fence=claimed.fence,
        timing=timing,
    )
    for _ in range(2):
        await harness.cancels.settle(job, claimed.fence + 1, [CancelledRun(execution, view)])
    ((user, _, model, region, _, _, run_s),) = await used(harness)
    assert (user, model, region, run_s) == (HARNESS_USER, "flux", "EU", 3.0)


async def test_a_failed_run_is_counted_without_its_seconds(harness: StoreHarness) -> None:
    await harness.submit()
    report = judged(await harness.claim(), "never")
    ran = tuple(one._replace(backend="us-1", timing=Timing(run_s=9.0)) for one in report.executions)
    await harness.claims.record([report._replace(executions=ran)])
    ((*_, failed, _, run_s),) = await used(harness)
    assert (failed, run_s) == (True, 0.0)


async def test_a_failure_before_any_backend_counts_nothing(harness: StoreHarness) -> None:
    await harness.dead(GENERATION, "later")
    assert await used(harness) == []


async def test_a_report_of_a_lost_job_counts_nothing(harness: StoreHarness) -> None:
    await harness.submit()
    messages = await harness.messages()
    (old,) = await harness.claims.claim(messages, "w1")
    (new,) = await harness.claims.claim(messages, "w2")
    assert await harness.claims.record([judged(old, "done")]) == frozenset()
    assert await used(harness) == []
    await harness.run(new, "done")
    assert len(await used(harness)) == 1
