"""Outbox to Redis: every message arrives once, however often it is published."""

import asyncio

import pytest

from beacon_contracts.tiers import JobClass
from beacon_runner.maintenance.metrics_collector import MetricsCollector, QueueAgeCollector
from tests.integration.runner_loops.harness import ALL_CLASSES, LoopHarness

COMMITTED_LATE = """
INSERT INTO outbox (job_id, user_id, generation, stage, attempt, class, lane)
SELECT id, user_id, 1, 0, 1, class, lane FROM jobs WHERE id = $1
"""


class KilledError(Exception):
    pass


async def push_and_die(harness: LoopHarness) -> None:
    async with harness.outbox.take(10) as entries:
        await harness.queue.push(entries)
        raise KilledError


async def test_committed_rows_are_published_and_deleted(harness: LoopHarness) -> None:
    jobs = await harness.submit(3)
    round_ = await harness.publisher.run_once()
    assert (round_.count, round_.more) == (3, False)
    assert [message.job for message in await harness.queue.claim(ALL_CLASSES, 10, "w")] == jobs
    assert (await harness.publisher.run_once()).count == 0


async def test_a_full_batch_reports_that_there_is_more(harness: LoopHarness) -> None:
    await harness.submit(501)
    first, second = await harness.publisher.run_once(), await harness.publisher.run_once()
    assert (first.count, first.more) == (500, True)
    assert (second.count, second.more) == (1, False)


async def test_two_publishers_publish_each_message_once(harness: LoopHarness) -> None:
    jobs = await harness.submit(1_200)
    counts = await asyncio.gather(*(harness.publish() for _ in range(2)))
    assert sum(counts) == 1_200
    claimed = [
        message.job for _ in range(2) for message in await harness.queue.claim(ALL_CLASSES, 1_000, "w")
    ]
    assert sorted(claimed) == sorted(jobs)


async def test_a_crash_between_push_and_commit_adds_no_message(harness: LoopHarness) -> None:
    (job,) = await harness.submit()
    with pytest.raises(KilledError):
        await push_and_die(harness)
    assert (await harness.publisher.run_once()).count == 1
    assert [message.job for message in await harness.queue.claim(ALL_CLASSES, 10, "w")] == [job]


async def test_a_row_that_commits_late_is_not_skipped(harness: LoopHarness) -> None:
    """Incident 16: a reader with an id cursor went past rows whose transactions were still open."""
    late, early = await harness.submit(), await harness.submit()
    await harness.database.execute("DELETE FROM outbox")
    async with harness.database.transaction() as slow:
        await slow.execute(COMMITTED_LATE, late[0])  # the lower number, not yet committed
        await harness.database.execute(COMMITTED_LATE, early[0])
        assert (await harness.publisher.run_once()).count == 1
    assert (await harness.publisher.run_once()).count == 1
    claimed = await harness.queue.claim(ALL_CLASSES, 10, "w")
    assert {message.job for message in claimed} == {late[0], early[0]}


async def test_lag_and_depth_are_metrics(harness: LoopHarness) -> None:
    await harness.queued(2)
    await harness.submit(3)
    metrics = harness.transport.metrics
    await MetricsCollector(harness.outbox, harness.transport.queue_admin, metrics).run_once()
    assert metrics.outbox_entries._value.get() == 3
    assert metrics.outbox_lag._value.get() > 0
    assert metrics.waiting.labels(JobClass.LOW)._value.get() == 2


async def test_the_age_of_the_oldest_waiting_job_is_a_metric_per_class(harness: LoopHarness) -> None:
    oldest, _ = await harness.submit(2)
    (running,) = await harness.submit(tier="admin")
    await harness.publish()
    await harness.claims.claim(await harness.queue.claim([JobClass.HIGH], 1, "w"), "w")
    aged = "UPDATE jobs SET queued_at = now() - interval '1 hour' WHERE id = ANY ($1::uuid[])"
    await harness.database.execute(aged, [oldest, running])
    metrics = harness.transport.metrics
    await QueueAgeCollector(harness.live, metrics).run_once()
    assert metrics.oldest.labels(JobClass.LOW)._value.get() >= 3600
    assert metrics.oldest.labels(JobClass.HIGH)._value.get() == 0
