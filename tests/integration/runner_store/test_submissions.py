"""New jobs: stored with their messages or not at all, and once per idempotency key."""

import asyncio

import asyncpg
import pytest

from beacon_contracts.ids import UserId, new_uuid
from beacon_contracts.jobs import JobState
from beacon_runner.domain.jobs.job_filter import JobFilter
from beacon_runner.domain.jobs.job_ids import batch_of, new_job_ids
from beacon_runner.domain.jobs.submissions import Answer, KeyTaken, NewJob, Submitted
from beacon_runner.domain.queue.messages import Topic
from beacon_runner.postgres.group_commit import GroupCommit
from tests.integration.runner_store.harness import GENERATION, MATRIX, USER, StoreHarness, new_job


async def test_jobs_are_stored_with_the_messages_that_queue_them_in_order(harness: StoreHarness) -> None:
    jobs = [new_job(), new_job(MATRIX, batch=True), new_job()]
    answers = await harness.submissions.submit(jobs)
    assert [answer.id for answer in answers if isinstance(answer, Submitted)] == [job.id for job in jobs]
    entries = await harness.published()
    assert [entry.message.job for entry in entries] == [job.id for job in jobs]
    assert {(entry.topic, entry.message.generation, entry.message.lane) for entry in entries} == {
        (Topic.JOBS, 1, USER.hex)
    }


async def test_jobs_of_a_batch_carry_its_name_until_they_have_a_lane(harness: StoreHarness) -> None:
    first, second = new_job_ids(2)
    await harness.submissions.submit([new_job(id=first, lane="", batch=True), new_job(id=second, batch=True)])
    await harness.submit(lane="")
    entries = await harness.published()
    assert [entry.message.lane for entry in entries] == ["", USER.hex, ""]
    assert [entry.batch for entry in entries] == [batch_of(second), None, None]


async def test_a_new_job_is_queued_and_has_its_first_event(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    record = await harness.job(job)
    assert (record.head.state, record.head.total, record.head.attempt) == (JobState.QUEUED, 4, 1)
    assert record.spec == MATRIX.spec
    assert await harness.events(job) == ["JOB_QUEUED"]


async def test_the_same_key_and_request_give_the_same_job(harness: StoreHarness) -> None:
    first = new_job(idempotency_key="k", request_hash=b"h")
    again = new_job(idempotency_key="k", request_hash=b"h")
    await harness.submissions.submit([first])
    (answer,) = await harness.submissions.submit([again])
    assert isinstance(answer, Submitted)
    assert (answer.id, answer.created) == (first.id, False)
    assert len(await harness.published()) == 1


async def test_the_same_key_for_another_request_is_a_conflict_that_names_the_first(
    harness: StoreHarness,
) -> None:
    first = new_job(idempotency_key="k", request_hash=b"h")
    await harness.submissions.submit([first])
    (answer,) = await harness.submissions.submit([new_job(idempotency_key="k", request_hash=b"other")])
    assert answer == KeyTaken(first.id)


async def test_the_same_key_twice_in_one_write_stores_one(harness: StoreHarness) -> None:
    jobs = [new_job(idempotency_key="k", request_hash=b"h") for _ in range(3)] + [new_job()]
    answers = await harness.submissions.submit(jobs)
    ids = [answer.id for answer in answers if isinstance(answer, Submitted)]
    assert ids == [jobs[0].id, jobs[0].id, jobs[0].id, jobs[3].id]
    assert len(await harness.published()) == 2


async def test_keys_of_other_users_are_other_keys(harness: StoreHarness) -> None:
    other = UserId(new_uuid())
    await harness.submissions.submit([new_job(idempotency_key="k", request_hash=b"h")])
    (answer,) = await harness.submissions.submit(
        [new_job(user=other, idempotency_key="k", request_hash=b"x")]
    )
    assert isinstance(answer, Submitted)
    assert answer.created


async def test_concurrent_requests_with_one_key_make_one_job(harness: StoreHarness) -> None:
    jobs = [new_job(idempotency_key="k", request_hash=b"h") for _ in range(20)]
    answers = await asyncio.gather(*(harness.submissions.submit([job]) for job in jobs))
    ids = {answer.id for (answer,) in answers if isinstance(answer, Submitted)}
    assert len(ids) == 1
    assert sum(answer.created for (answer,) in answers if isinstance(answer, Submitted)) == 1
    assert len(await harness.published()) == 1


async def test_a_batch_under_a_key_is_stored_once_as_a_whole(harness: StoreHarness) -> None:
    def batch(size: int) -> list[NewJob]:
        return [new_job(id=job, batch=True) for job in new_job_ids(size)]

    jobs = batch(5)
    made = await harness.submissions.submit_batch(jobs, "k", b"h")
    again = await harness.submissions.submit_batch(batch(5), "k", b"h")
    assert [one.id for one in again if isinstance(one, Submitted)] == [job.id for job in jobs]
    assert [one.created for one in [*made, *again] if isinstance(one, Submitted)] == [True] * 5 + [False] * 5
    assert await harness.submissions.submit_batch(batch(6), "k", b"other") == [KeyTaken(jobs[0].id)]
    assert len(await harness.published()) == 5


async def test_a_failed_write_leaves_neither_jobs_nor_messages(harness: StoreHarness) -> None:
    stored = await harness.submit()
    await harness.published()
    with pytest.raises(asyncpg.UniqueViolationError):
        await harness.submissions.submit([new_job(), new_job(id=stored)])
    assert await harness.published() == []
    jobs = (await harness.queries.page(JobFilter(USER), limit=10)).jobs
    assert [job.id for job in jobs] == [stored]


async def test_concurrent_requests_share_transactions_and_keep_their_own_errors(
    harness: StoreHarness,
) -> None:
    commits: GroupCommit[NewJob, Answer] = GroupCommit("test", harness.submissions.submit)
    taken = await harness.submit()
    jobs = [new_job() for _ in range(50)]
    bad = new_job(id=taken)
    results = await asyncio.gather(
        *(commits.submit([job]) for job in (*jobs[:25], bad, *jobs[25:])), return_exceptions=True
    )
    assert isinstance(results[25], asyncpg.UniqueViolationError)
    assert sum(not isinstance(result, BaseException) for result in results) == 50
    assert {entry.message.job for entry in await harness.published()} == {taken, *(job.id for job in jobs)}
    await commits.close()


async def test_any_input_is_stored_and_read_unchanged(harness: StoreHarness) -> None:
    odd = {
        "prompt": "emoji 🦜, quotes \" ' \\ and \u2028 lines",
        "n": 2**53 + 1,
        "f": 1e-300,
        "deep": [[[{}]]],
    }
    admitted = GENERATION.__class__("generation", "näme", {**GENERATION.spec, "input": odd}, 1, 1)
    job = await harness.submit(admitted)
    assert (await harness.job(job)).spec["input"] == odd
