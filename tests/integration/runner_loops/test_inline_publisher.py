"""The API publishes its own commits; rows that it does not publish are left to the relay."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from beacon_lifecycle import SystemClock
from beacon_redis import RedisAddress
from beacon_runner.domain.queue.messages import OutboxEntry
from beacon_runner.maintenance.publisher import InlinePublisher, OutboxPublisher
from beacon_runner.postgres.jobs.submissions import PostgresSubmissions
from beacon_runner.redis_queue import RedisQueue
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until
from tests.integration.runner_loops.harness import ALL_CLASSES, LoopHarness
from tests.integration.runner_store.harness import new_job


@asynccontextmanager
async def submitting(
    harness: LoopHarness, on_commit: Callable[[Sequence[OutboxEntry]], None]
) -> AsyncIterator[PostgresSubmissions]:
    submissions = PostgresSubmissions(harness.database, SystemClock(), 1_000_000, on_commit)
    yield submissions
    await submissions.close()


async def outbox_is_empty(harness: LoopHarness) -> bool:
    return (await harness.outbox.lag()).entries == 0


async def test_committed_jobs_are_published_without_the_relay(harness: LoopHarness) -> None:
    inline = InlinePublisher(harness.publisher, lambda: None)
    await inline.start()
    async with submitting(harness, inline.publish) as submissions:
        jobs = [new_job(), new_job(tier="admin")]
        await submissions.submit(jobs)
        await until(lambda: outbox_is_empty(harness), "the rows are published and deleted")
    await inline.stop()
    claimed = await harness.queue.claim(ALL_CLASSES, 10, "w")
    assert {message.job for message in claimed} == {job.id for job in jobs}


async def test_inline_entries_equal_those_read_from_the_outbox(harness: LoopHarness) -> None:
    published: list[OutboxEntry] = []
    async with submitting(harness, published.extend) as submissions:
        await submissions.submit([new_job()])
        await submissions.submit([new_job(batch=True, lane=""), new_job(batch=True, lane="")])
        await submissions.submit_batch(
            [new_job(batch=True), new_job(batch=True)], key="k", request_hash=b"h" * 32
        )
    async with harness.outbox.take(100) as read:
        assert published == list(read)
        assert len(published) == 5


async def test_a_crash_between_commit_and_push_leaves_the_job_to_the_relay(harness: LoopHarness) -> None:
    """The process ends with the commit: the entries that it would have pushed are lost with its memory."""
    async with submitting(harness, lambda _: None) as submissions:
        job = new_job()
        await submissions.submit([job])
    assert await harness.queue.claim(ALL_CLASSES, 10, "w") == []
    assert (await harness.publisher.run_once()).count == 1
    assert [message.job for message in await harness.queue.claim(ALL_CLASSES, 10, "w")] == [job.id]


async def test_a_crash_between_push_and_delete_adds_no_second_message(harness: LoopHarness) -> None:
    published: list[OutboxEntry] = []
    async with submitting(harness, published.extend) as submissions:
        job = new_job()
        await submissions.submit([job])
    await harness.publisher.publish(published)
    assert (await harness.publisher.run_once()).count == 1
    assert [message.job for message in await harness.queue.claim(ALL_CLASSES, 10, "w")] == [job.id]


async def test_a_failed_inline_push_keeps_the_row_and_notifies_the_relay(harness: LoopHarness) -> None:
    notified = asyncio.Event()
    unreachable = RedisAddress("redis://127.0.0.1:1/0").open()
    queue = RedisQueue(unreachable, harness.transport.layout, lease_s=10)
    inline = InlinePublisher(OutboxPublisher(harness.outbox, queue, harness.transport.metrics), notified.set)
    await inline.start()
    async with submitting(harness, inline.publish) as submissions:
        job = new_job()
        await submissions.submit([job])
        await asyncio.wait_for(notified.wait(), WAIT_TIMEOUT_S)
    await inline.stop()
    await unreachable.aclose()
    await harness.publish()
    assert [message.job for message in await harness.queue.claim(ALL_CLASSES, 10, "w")] == [job.id]
