"""A long wait raises a job's class; there is always one live message."""

import asyncio

import pytest

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.queue.classes import promotions
from beacon_runner.domain.queue.messages import Message
from beacon_runner.maintenance.promoter import Promoter
from tests.integration.runner_loops.harness import LoopHarness
from tests.integration.runner_store.harness import StoreHarness

MAKE_OLD = "UPDATE jobs SET queued_at = now() - $2 * interval '1 second' WHERE id = $1"


def promoter(harness: LoopHarness) -> Promoter:
    steps = promotions(harness.config)
    return Promoter(harness.live, lambda: steps, harness.transport.metrics)


async def age(harness: LoopHarness, job: JobId, seconds: float) -> None:
    await harness.database.execute(MAKE_OLD, job, seconds)


async def test_a_promoted_job_has_one_message_and_runs_once(harness: LoopHarness) -> None:
    """Incident 10: promotion pushed a second message and left the first: the job ran twice."""
    (old,), (young,) = await harness.queued(), await harness.queued()
    await age(harness, old, 1_900)
    assert (await promoter(harness).run_once()).count == 1
    await harness.publish()
    medium = await harness.queue.claim([JobClass.MEDIUM], 10, "w")
    assert [message.job for message in medium] == [old]
    assert [message.job for message in await harness.queue.claim([JobClass.LOW], 10, "w")] == [young]
    assert len(await harness.claims.claim(medium, "w")) == 1
    events = await harness.database.fetch("SELECT events FROM job_events WHERE job_id = $1", old)
    assert "JOB_PROMOTED" in str(events)


async def test_a_promoted_job_that_completes_at_once_has_all_events(harness: LoopHarness) -> None:
    (job,) = await harness.queued()
    await age(harness, job, 1_900)
    await promoter(harness).run_once()
    await harness.publish()
    store = StoreHarness(harness.database)
    (claimed,) = await harness.claims.claim(await harness.queue.claim([JobClass.MEDIUM], 1, "w"), "w")
    await store.run(claimed, "a cat")
    assert await store.events(job) == [
        "JOB_QUEUED",
        "JOB_PROMOTED",
        "EXECUTION_START",
        "EXECUTION_COMPLETE",
        "JOB_COMPLETE",
    ]
    record = await store.job(job)
    assert record.promoted_at is not None
    assert (record.original_class, record.head.job_class) == (JobClass.LOW, JobClass.MEDIUM)
    assert harness.transport.metrics.jobs_promoted.labels("medium")._value.get() == 1


async def test_promoting_twice_changes_nothing(harness: LoopHarness) -> None:
    (job,) = await harness.queued(tier="premium")
    await age(harness, job, 3_700)
    assert (await promoter(harness).run_once()).count == 1
    assert (await promoter(harness).run_once()).count == 0
    await harness.publish()
    stats = await harness.transport.queue_admin.stats()
    assert stats.waiting == {JobClass.HIGH: 1, JobClass.MEDIUM: 0, JobClass.LOW: 0}


async def test_low_rises_one_class_at_a_time(harness: LoopHarness) -> None:
    (job,) = await harness.queued()
    await age(harness, job, 100_000)
    await promoter(harness).run_once()
    assert (await harness.job(job))["class"] == "medium"
    await promoter(harness).run_once()
    assert (await harness.job(job))["class"] == "high"


async def test_a_claimed_job_is_not_promoted(harness: LoopHarness) -> None:
    (job,) = await harness.queued()
    await age(harness, job, 1_900)
    messages = await harness.queue.claim([JobClass.LOW], 1, "w")
    await promoter(harness).run_once()  # the worker has the message, and has not fenced the job yet
    await harness.publish()
    assert await harness.queue.claim(list(JobClass), 10, "other") == []
    assert [one.id for one in await harness.claims.claim(messages, "w")] == [job]


async def test_a_relay_that_dies_between_push_and_commit_leaves_one_message(harness: LoopHarness) -> None:
    """The row was pushed and is still in the outbox: the next relay pushes it again."""
    (job,) = await harness.queued()
    await age(harness, job, 1_900)
    await promoter(harness).run_once()

    async def publish_and_die() -> None:
        async with harness.outbox.take(10) as entries:
            await harness.queue.push(entries)
            raise RuntimeError("the relay dies here")

    with pytest.raises(RuntimeError, match="dies here"):
        await publish_and_die()
    assert (await promoter(harness).run_once()).count == 0
    assert await harness.publish() == 1
    assert [message.job for message in await harness.queue.claim(list(JobClass), 10, "w")] == [job]
    assert await StoreHarness(harness.database).events(job) == ["JOB_QUEUED", "JOB_PROMOTED"]


async def test_two_relays_at_once_promote_each_job_once(harness: LoopHarness) -> None:
    jobs = await harness.queued(40)
    for job in jobs:
        await age(harness, job, 1_900)
    rounds = await asyncio.gather(*(promoter(harness).run_once() for _ in range(4)))
    assert sum(one.count for one in rounds) == 40
    await asyncio.gather(*(harness.publisher.run_once() for _ in range(4)))
    await harness.publish()
    stats = await harness.transport.queue_admin.stats()
    assert stats.waiting == {JobClass.HIGH: 0, JobClass.MEDIUM: 40, JobClass.LOW: 0}
    claimed = await harness.queue.claim(list(JobClass), 100, "w")
    assert {message.job for message in claimed} == set(jobs)
    assert len(claimed) == 40
    for job in jobs:
        assert (await StoreHarness(harness.database).events(job)).count("JOB_PROMOTED") == 1


async def test_a_queued_retry_is_promoted_too(harness: LoopHarness) -> None:
    (job,) = await harness.queued()
    store = StoreHarness(harness.database)
    (claimed,) = await harness.claims.claim(await harness.queue.claim([JobClass.LOW], 1, "w"), "w")
    await store.run(claimed, "later")
    await harness.queue.ack([Message(job, 1, 0, 1, JobClass.LOW, "x")])
    await harness.publish()
    await age(harness, job, 1_900)
    assert (await promoter(harness).run_once()).count == 1
    await harness.publish()
    await harness.transport.redis.zadd("jobs:retry", {f"{job.hex}:2": 1})
    await harness.queue.promote_due_retries(10)
    assert [message.job for message in await harness.queue.claim([JobClass.MEDIUM], 10, "w")] == [job]


async def test_a_late_copy_of_the_first_message_does_not_demote(harness: LoopHarness) -> None:
    (job,) = await harness.submit()
    async with harness.outbox.take(1) as first:
        await harness.queue.push(first)
    await age(harness, job, 1_900)
    await promoter(harness).run_once()
    await harness.publish()
    await harness.queue.push(list(first))
    assert [m.job for m in await harness.queue.claim([JobClass.MEDIUM], 10, "w")] == [job]
