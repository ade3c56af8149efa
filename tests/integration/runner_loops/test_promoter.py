"""Waiting long raises a job's class. There is one live message before and after."""

import asyncio
from dataclasses import replace

import pytest

from beacon_contracts.ids import JobId
from beacon_contracts.tiers import JobClass, Tier
from beacon_runner.domain.classes import promotions
from beacon_runner.domain.messages import Message
from beacon_runner.maintenance.promoter import Promoter
from tests.integration.runner_loops.bed import LoopBed
from tests.integration.runner_store.bed import Bed

MAKE_OLD = "UPDATE jobs SET queued_at = now() - $2 * interval '1 second' WHERE id = $1"


def promoter(bed: LoopBed) -> Promoter:
    steps = promotions(bed.config)
    return Promoter(bed.live, steps, bed.transport.metrics)


async def age(bed: LoopBed, job: JobId, seconds: float) -> None:
    await bed.database.execute(MAKE_OLD, job, seconds)


async def test_a_promoted_job_has_one_message_and_runs_once(bed: LoopBed) -> None:
    """Incident 10: promotion pushed a second message and left the first: the job ran twice."""
    (old,), (young,) = await bed.queued(), await bed.queued()
    await age(bed, old, 1_900)
    assert (await promoter(bed).run_once()).count == 1
    await bed.publish()
    medium = await bed.queue.claim([JobClass.MEDIUM], 10, "w")
    assert [message.job for message in medium] == [old]
    assert [message.job for message in await bed.queue.claim([JobClass.LOW], 10, "w")] == [young]
    assert len(await bed.claims.claim(medium, "w")) == 1
    events = await bed.database.fetch("SELECT events FROM job_events WHERE job_id = $1", old)
    assert "JOB_PROMOTED" in str(events)


async def test_a_promoted_job_that_completes_at_once_tells_its_whole_story(bed: LoopBed) -> None:
    (job,) = await bed.queued()
    await age(bed, job, 1_900)
    await promoter(bed).run_once()
    await bed.publish()
    store = Bed(bed.database)
    (claimed,) = await bed.claims.claim(await bed.queue.claim([JobClass.MEDIUM], 1, "w"), "w")
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
    assert bed.transport.metrics.promoted.labels("medium")._value.get() == 1


async def test_promoting_twice_changes_nothing_more(bed: LoopBed) -> None:
    (job,) = await bed.queued(tier=Tier.PREMIUM)
    await age(bed, job, 3_700)
    assert (await promoter(bed).run_once()).count == 1
    assert (await promoter(bed).run_once()).count == 0
    await bed.publish()
    stats = await bed.transport.queue_admin.stats()
    assert stats.waiting == {JobClass.HIGH: 1, JobClass.MEDIUM: 0, JobClass.LOW: 0}


async def test_low_rises_one_class_at_a_time(bed: LoopBed) -> None:
    (job,) = await bed.queued()
    await age(bed, job, 100_000)
    await promoter(bed).run_once()
    assert (await bed.job(job))["class"] == "medium"
    await promoter(bed).run_once()
    assert (await bed.job(job))["class"] == "high"


async def test_a_job_that_was_claimed_meanwhile_is_left_alone(bed: LoopBed) -> None:
    (job,) = await bed.queued()
    await age(bed, job, 1_900)
    messages = await bed.queue.claim([JobClass.LOW], 1, "w")
    await promoter(bed).run_once()  # the worker has the message, and has not fenced the job yet
    await bed.publish()
    assert await bed.queue.claim(list(JobClass), 10, "other") == []
    assert [one.id for one in await bed.claims.claim(messages, "w")] == [job]


async def test_a_relay_that_dies_between_push_and_commit_leaves_one_message(bed: LoopBed) -> None:
    """The order has reached Redis, the outbox still holds it: the next relay carries it again."""
    (job,) = await bed.queued()
    await age(bed, job, 1_900)
    await promoter(bed).run_once()

    async def publish_and_die() -> None:
        async with bed.outbox.take(10) as entries:
            await bed.queue.push(entries)
            raise RuntimeError("the relay dies here")

    with pytest.raises(RuntimeError, match="dies here"):
        await publish_and_die()
    assert (await promoter(bed).run_once()).count == 0
    assert await bed.publish() == 1
    assert [message.job for message in await bed.queue.claim(list(JobClass), 10, "w")] == [job]
    assert await Bed(bed.database).events(job) == ["JOB_QUEUED", "JOB_PROMOTED"]


async def test_two_relays_at_once_promote_each_job_once(bed: LoopBed) -> None:
    jobs = await bed.queued(40)
    for job in jobs:
        await age(bed, job, 1_900)
    rounds = await asyncio.gather(*(promoter(bed).run_once() for _ in range(4)))
    assert sum(one.count for one in rounds) == 40
    await asyncio.gather(*(bed.publisher.run_once() for _ in range(4)))
    await bed.publish()
    stats = await bed.transport.queue_admin.stats()
    assert stats.waiting == {JobClass.HIGH: 0, JobClass.MEDIUM: 40, JobClass.LOW: 0}
    claimed = await bed.queue.claim(list(JobClass), 100, "w")
    assert {message.job for message in claimed} == set(jobs)
    assert len(claimed) == 40
    for job in jobs:
        assert (await Bed(bed.database).events(job)).count("JOB_PROMOTED") == 1


async def test_a_retry_that_waits_for_its_turn_is_promoted_too(bed: LoopBed) -> None:
    (job,) = await bed.queued()
    store = Bed(bed.database)
    (claimed,) = await bed.claims.claim(await bed.queue.claim([JobClass.LOW], 1, "w"), "w")
    await store.run(claimed, "later")
    await bed.queue.ack([Message(job, 1, 0, 1, JobClass.LOW, "x")])
    await bed.publish()
    await age(bed, job, 1_900)
    assert (await promoter(bed).run_once()).count == 1
    await bed.publish()
    await bed.transport.redis.zadd("jobs:retry", {f"{job.hex}:2": 1})
    await bed.queue.promote_due_retries(10)
    assert [message.job for message in await bed.queue.claim([JobClass.MEDIUM], 10, "w")] == [job]


async def test_a_late_copy_of_the_first_message_does_not_demote(bed: LoopBed) -> None:
    (job,) = await bed.submit()
    async with bed.outbox.take(1) as first:
        await bed.queue.push(first)
    await age(bed, job, 1_900)
    await promoter(bed).run_once()
    await bed.publish()
    await bed.queue.push([replace(entry) for entry in first])
    assert [m.job for m in await bed.queue.claim([JobClass.MEDIUM], 10, "w")] == [job]
