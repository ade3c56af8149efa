"""Outbox to Redis: everything arrives, once, however often and by whomever it is carried."""

import asyncio

import pytest

from beacon_contracts.tiers import JobClass, Tier
from beacon_runner.maintenance.metrics_collector import MetricsCollector, QueueAgeCollector
from tests.integration.runner_loops.bed import ALL_CLASSES, LoopBed

COMMITTED_LATE = """
INSERT INTO outbox (job_id, user_id, generation, stage, attempt, class, lane)
SELECT id, user_id, 1, 0, 1, class, lane FROM jobs WHERE id = $1
"""


class KilledError(Exception):
    pass


async def push_and_die(bed: LoopBed) -> None:
    async with bed.outbox.take(10) as entries:
        await bed.queue.push(entries)
        raise KilledError


async def test_what_is_committed_is_published_and_gone(bed: LoopBed) -> None:
    jobs = await bed.submit(3)
    round_ = await bed.publisher.run_once()
    assert (round_.count, round_.more) == (3, False)
    assert [message.job for message in await bed.queue.claim(ALL_CLASSES, 10, "w")] == jobs
    assert (await bed.publisher.run_once()).count == 0


async def test_a_full_batch_says_that_there_is_more(bed: LoopBed) -> None:
    await bed.submit(501)
    first, second = await bed.publisher.run_once(), await bed.publisher.run_once()
    assert (first.count, first.more) == (500, True)
    assert (second.count, second.more) == (1, False)


async def test_two_publishers_carry_each_message_once(bed: LoopBed) -> None:
    jobs = await bed.submit(1_200)
    counts = await asyncio.gather(*(bed.publish() for _ in range(2)))
    assert sum(counts) == 1_200
    claimed = [message.job for _ in range(2) for message in await bed.queue.claim(ALL_CLASSES, 1_000, "w")]
    assert sorted(claimed) == sorted(jobs)


async def test_dying_between_push_and_commit_does_no_harm(bed: LoopBed) -> None:
    (job,) = await bed.submit()
    with pytest.raises(KilledError):
        await push_and_die(bed)
    assert (await bed.publisher.run_once()).count == 1
    assert [message.job for message in await bed.queue.claim(ALL_CLASSES, 10, "w")] == [job]


async def test_a_row_that_commits_late_is_not_skipped(bed: LoopBed) -> None:
    """Incident 16: a reader with an id cursor went past rows whose transactions were still open."""
    late, early = await bed.submit(), await bed.submit()
    await bed.database.execute("DELETE FROM outbox")
    async with bed.database.transaction() as slow:
        await slow.execute(COMMITTED_LATE, late[0])  # the lower number, not yet committed
        await bed.database.execute(COMMITTED_LATE, early[0])
        assert (await bed.publisher.run_once()).count == 1
    assert (await bed.publisher.run_once()).count == 1
    claimed = await bed.queue.claim(ALL_CLASSES, 10, "w")
    assert {message.job for message in claimed} == {late[0], early[0]}


async def test_lag_and_depth_are_metrics(bed: LoopBed) -> None:
    await bed.queued(2)
    await bed.submit(3)
    metrics = bed.transport.metrics
    await MetricsCollector(bed.outbox, bed.transport.queue_admin, metrics).run_once()
    assert metrics.outbox_entries._value.get() == 3
    assert metrics.outbox_lag._value.get() > 0
    assert metrics.waiting.labels(JobClass.LOW)._value.get() == 2


async def test_the_age_of_the_oldest_that_waits_is_a_metric_of_each_class(bed: LoopBed) -> None:
    oldest, _ = await bed.submit(2)
    (running,) = await bed.submit(tier=Tier.ADMIN)
    await bed.publish()
    await bed.claims.claim(await bed.queue.claim([JobClass.HIGH], 1, "w"), "w")
    aged = "UPDATE jobs SET queued_at = now() - interval '1 hour' WHERE id = ANY ($1::uuid[])"
    await bed.database.execute(aged, [oldest, running])
    metrics = bed.transport.metrics
    await QueueAgeCollector(bed.live, metrics).run_once()
    assert metrics.oldest.labels(JobClass.LOW)._value.get() >= 3600
    assert metrics.oldest.labels(JobClass.HIGH)._value.get() == 0
