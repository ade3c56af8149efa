"""Stores of the maintenance loops: outbox, live jobs, promotion, retention."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from unittest.mock import ANY

import pytest

from beacon_config.retention import RetentionConfig
from beacon_contracts.ids import UserId, new_uuid
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import RunResult
from beacon_runner.domain.jobs.job_filter import JobFilter
from beacon_runner.domain.jobs.retention import Removal
from beacon_runner.domain.queue.messages import Message, Topic
from beacon_runner.maintenance.retention import Retention
from beacon_runner.ports.reconcile import LiveMessage
from tests.integration.runner_store.harness import GENERATION, MATRIX, USER, StoreHarness, new_job
from tests.integration.runner_store.statements import AGE_JOB, LATE_MESSAGE


async def test_entries_of_a_failed_publisher_are_kept(harness: StoreHarness) -> None:
    job = await harness.submit()

    async def fail() -> None:
        async with harness.outbox.take(10) as entries:
            assert len(entries) == 1
            raise RuntimeError("redis is unavailable")

    with pytest.raises(RuntimeError):
        await fail()
    assert [entry.message.job for entry in await harness.published()] == [job]


async def test_two_publishers_share_the_outbox_without_waiting_or_repeating(harness: StoreHarness) -> None:
    jobs = [await harness.submit() for _ in range(10)]
    async with harness.outbox.take(4) as first, harness.outbox.take(100) as second:
        taken = [entry.message.job for entry in (*first, *second)]
    assert taken == jobs


async def test_a_row_that_commits_late_is_not_skipped(harness: StoreHarness) -> None:
    """The outbox reader once kept an id cursor and skipped rows that committed late."""
    late = new_uuid()
    async with harness.database.transaction() as connection:
        await connection.execute(LATE_MESSAGE, late)
        early = await harness.submit()
        assert [entry.message.job for entry in await harness.published()] == [early]
    assert [entry.message.job for entry in await harness.published()] == [late]


async def test_lag_is_the_number_and_age_of_unpublished_rows(harness: StoreHarness) -> None:
    assert await harness.outbox.lag() == type(await harness.outbox.lag())(0, 0.0)
    await harness.submit()
    lag = await harness.outbox.lag()
    assert lag.entries == 1
    assert lag.oldest_s > 0


async def live(harness: StoreHarness, page: int = 3) -> list[Message]:
    found: list[Message] = []
    after: LiveMessage | None = None
    while rows := await harness.live.live_page(after, page):
        found += [row.message for row in rows]
        after = rows[-1]
    return found


async def test_every_live_job_is_paged_once_and_no_other(harness: StoreHarness) -> None:
    users = [UserId(new_uuid()) for _ in range(3)]
    jobs = [await harness.submit(user=users[number % 3]) for number in range(10)]
    messages = await harness.messages()
    claimed = await harness.claims.claim([m for m in messages if m.job in jobs[:4]], "w")
    for one in claimed[:2]:
        await harness.run(one, "done")
    await harness.cancel(jobs[9])
    await harness.run(claimed[2], "later")
    await harness.published()
    expected = set(jobs) - {one.id for one in claimed[:2]} - {jobs[9]}
    found = await live(harness)
    assert len(found) == len(expected)
    assert {message.job for message in found} == expected


async def test_a_live_page_has_the_place_of_each_message(harness: StoreHarness) -> None:
    waiting, retrying, taken = [await harness.submit() for _ in range(3)]
    messages = {message.job: message for message in await harness.messages()}
    claimed = await harness.claims.claim([messages[retrying], messages[taken]], "w")
    await harness.run(next(one for one in claimed if one.id == retrying), "later")
    await harness.published()
    rows = {row.message.job: row for row in await harness.live.live_page(None, 10)}
    assert rows[retrying].retry_at is not None
    assert rows[retrying].message.generation == 2
    assert rows[taken].claimed is True
    assert (rows[waiting].retry_at, rows[waiting].claimed) == (None, False)


async def test_unpublished_jobs_are_not_listed_as_lost(harness: StoreHarness) -> None:
    published = await harness.submit()
    await harness.published()
    await harness.submit()
    assert [message.job for message in await live(harness)] == [published]


async def test_only_live_jobs_of_the_same_generation_are_republished(
    harness: StoreHarness,
) -> None:
    waiting, done, retrying = [await harness.submit() for _ in range(3)]
    messages = {message.job: message for message in await harness.messages()}
    claimed = {one.id: one for one in await harness.claims.claim([messages[done], messages[retrying]], "w")}
    await harness.run(claimed[done], "done")
    await harness.run(claimed[retrying], "later")
    await harness.published()
    lost = [*messages.values(), *(row.message for row in await harness.live.live_page(None, 10))]
    assert await harness.live.republish(lost) == 3
    entries = await harness.published()
    assert [(entry.message.job, entry.topic) for entry in entries].count((waiting, Topic.JOBS)) == 2
    assert [entry.topic for entry in entries if entry.message.job == retrying] == [Topic.RETRY]


async def test_dead_letters_are_mirrored_again(harness: StoreHarness) -> None:
    jobs = [await harness.dead(GENERATION, "never") for _ in range(2)]
    assert await harness.live.republish_dead(jobs) == 2
    assert [(entry.topic, entry.message.job) for entry in await harness.published()] == [
        (Topic.DEAD, job) for job in jobs
    ]


async def test_promotion_moves_the_one_message_of_old_jobs(
    harness: StoreHarness,
) -> None:
    old, young, running = [await harness.submit() for _ in range(3)]
    messages = {message.job: message for message in await harness.messages()}
    await harness.claims.claim([messages[running]], "w")
    for job in (old, running):
        await harness.database.execute(AGE_JOB, job, timedelta(minutes=31))
    assert await harness.live.promote(JobClass.LOW, JobClass.MEDIUM, 1800, 10) == 1
    (entry,) = await harness.published()
    assert (entry.message.job, entry.message.generation, entry.message.job_class) == (old, 1, JobClass.MEDIUM)
    record = await harness.job(old)
    assert (record.head.job_class, record.original_class) == (JobClass.MEDIUM, JobClass.LOW)
    assert record.promoted_at is not None
    assert await harness.events(old) == ["JOB_QUEUED", "JOB_PROMOTED"]
    assert (await harness.job(young)).head.job_class is JobClass.LOW


async def test_two_promoters_at_once_promote_each_job_once(harness: StoreHarness) -> None:
    jobs = [await harness.submit() for _ in range(20)]
    await harness.published()
    for job in jobs:
        await harness.database.execute(AGE_JOB, job, timedelta(hours=1))
    counts = await asyncio.gather(
        *(harness.live.promote(JobClass.LOW, JobClass.MEDIUM, 1800, 15) for _ in range(2))
    )
    assert sum(counts) <= 20
    assert len(await harness.published()) == sum(counts)


async def test_retention_deletes_finished_jobs_by_age(harness: StoreHarness) -> None:
    finished, alive = await harness.dead(MATRIX, "a", "b", "c", "never"), await harness.submit()
    retention = Retention(
        harness.retention, lambda: RetentionConfig(events_s=3600, idempotency_s=3600, jobs_s=7200)
    )
    assert (await retention.run_once()).count == 0
    await harness.database.execute(AGE_JOB, finished, timedelta(minutes=90))
    await harness.database.execute(AGE_JOB, alive, timedelta(days=90))
    aged = (await harness.queries.page(JobFilter(USER, (JobState.PARTIAL,)), limit=1)).jobs[0].id
    assert (await retention.run_once()).count == 1
    assert await harness.events(aged) == ["JOB_QUEUED"]  # the job's own row
    await harness.database.execute(AGE_JOB, aged, timedelta(minutes=90))
    assert await retention.run_once() == RunResult(1)
    left = (await harness.queries.page(JobFilter(USER), limit=10)).jobs
    assert [head.state for head in left] == [JobState.QUEUED]


async def test_a_job_queued_again_since_it_was_found_is_kept(harness: StoreHarness) -> None:
    await harness.dead(MATRIX, "a", "b", "c", "never")
    found = {removal: await harness.retention.find(removal, 0.0, 100) for removal in Removal}
    (job,) = found[Removal.JOBS]
    assert found[Removal.EVENTS] == [replace(job, submitted_s=ANY, ended_s=ANY)]
    await harness.dead_letters.requeue([job.id])
    assert [await harness.retention.remove(removal, [job]) for removal in Removal] == [0, 0, 0]
    assert (await harness.job(job.id)).state is JobState.QUEUED
    assert "JOB_QUEUED" in await harness.events(job.id)


async def test_old_idempotency_keys_are_freed(harness: StoreHarness) -> None:
    job = await harness.submit(idempotency_key="k", request_hash=b"h")
    await harness.database.execute(AGE_JOB, job, timedelta(days=2))
    assert await Retention(harness.retention, RetentionConfig).run_once() == RunResult(1)
    (answer,) = await harness.submissions.submit([new_job(idempotency_key="k", request_hash=b"other")])
    assert getattr(answer, "created", None) is True
