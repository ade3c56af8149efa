"""Claims: who holds a job, and what the others can no longer do."""

import asyncio
from dataclasses import replace

import pytest

from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.stage_result import ExecutionReport, Finished, Returned, StageReport
from tests.integration.runner_store.bed import MATRIX, MAX_DELIVERIES, NOW, PIPELINE, Bed, judged, run_reports


async def test_a_claim_hands_out_all_that_working_on_the_job_needs(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    claimed = await bed.claim("w7")
    assert (claimed.id, claimed.stage, claimed.attempt) == (job, 0, 1)
    assert claimed.spec == MATRIX.spec
    record = await bed.job(job)
    assert record.head.state is JobState.PROCESSING
    assert record.head.started_at is not None


@pytest.mark.parametrize(("submitted", "claimed"), [("", "queue_3"), ("anna", "anna")])
async def test_a_claim_writes_down_the_lane_that_the_queue_has_chosen(
    bed: Bed, submitted: str, claimed: str
) -> None:
    job = await bed.submit(lane=submitted)
    (message,) = await bed.messages()
    await bed.claims.claim([replace(message, lane=claimed)], "w1")
    assert (await bed.job(job)).lane == claimed


async def test_a_message_delivered_twice_makes_the_first_worker_harmless(bed: Bed) -> None:
    await bed.submit()
    (message,) = await bed.messages()
    (first,) = await bed.claims.claim([message], "w1")
    (second,) = await bed.claims.claim([message], "w2")
    assert second.fence > first.fence
    assert await bed.claims.record([judged(first, "late answer")]) == frozenset()
    assert await bed.claims.record([judged(second, "answer")]) == {second.id}
    assert (await bed.executions(second.id))[0].output == {"text": "answer"}


async def test_a_worker_that_lost_its_fence_can_change_nothing_at_all(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    (message,) = await bed.messages()
    (first,) = await bed.claims.claim([message], "w1")
    await bed.claims.claim([message], "w2")
    before = (await bed.job(job), await bed.events(job))
    reports = run_reports(first, ["a", "b", "later", "never"])
    for verdict in (None, Returned(), judged(first, "a", "b", "c", "d").verdict):
        assert await bed.claims.record([StageReport(first, reports, verdict=verdict)]) == frozenset()
    assert (await bed.job(job), await bed.events(job)) == before
    assert await bed.executions(job) == {}
    assert await bed.published() == []


async def test_a_copy_of_an_old_message_is_recognised_by_its_generation(bed: Bed) -> None:
    await bed.submit(PIPELINE)
    (old,) = await bed.messages()
    (claimed,) = await bed.claims.claim([old], "w1")
    await bed.run(claimed, "a shining city")
    assert await bed.claims.claim([old], "w2") == []
    (new,) = await bed.messages()
    assert (new.generation, new.stage) == (2, 1)
    assert len(await bed.claims.claim([old, new], "w2")) == 1


async def test_a_finished_or_cancelled_job_is_not_handed_out(bed: Bed) -> None:
    await bed.submit()
    cancelled = await bed.submit()
    messages = await bed.messages()
    claimed = await bed.claims.claim(messages[:1], "w1")
    await bed.run(claimed[0], "answer")
    await bed.cancel(cancelled)
    assert await bed.claims.claim(messages, "w1") == []


async def test_many_are_claimed_at_once_and_by_one_worker_each(bed: Bed) -> None:
    jobs = [await bed.submit() for _ in range(40)]
    messages = await bed.messages()
    halves = await asyncio.gather(*(bed.claims.claim(messages[start::4], f"w{start}") for start in range(4)))
    claimed = [one.id for half in halves for one in half]
    assert sorted(claimed) == sorted(jobs)


async def test_the_same_messages_claimed_by_two_in_opposite_order_do_not_block_each_other(bed: Bed) -> None:
    for _ in range(30):
        await bed.submit()
    messages = await bed.messages()
    first, second = await asyncio.gather(
        bed.claims.claim(messages, "w1"), bed.claims.claim(messages[::-1], "w2")
    )
    assert len(first) == len(second) == 30


async def test_a_lost_worker_s_progress_is_known_to_the_next(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    (message,) = await bed.messages()
    (first,) = await bed.claims.claim([message], "w1")
    done, started, *_ = run_reports(first, ["a", "b", "c", "d"])
    running = ExecutionReport(started.execution, ExecutionState.RUNNING, 1, started_at=NOW.timestamp())
    await bed.claims.record([StageReport(first, (done, running))])
    (second,) = await bed.claims.claim([message], "w2")
    assert {(one.ordinal, one.state, one.attempt) for one in second.recorded_executions} == {
        (0, ExecutionState.COMPLETED, 1),
        (1, ExecutionState.RUNNING, 1),
    }
    assert len(judged(second, "x", "y", "z").executions) == 3
    assert (await bed.job(job)).head.completed == 1


async def test_a_step_recorded_before_a_crash_keeps_its_result(bed: Bed) -> None:
    await bed.submit(PIPELINE)
    (message,) = await bed.messages()
    (first,) = await bed.claims.claim([message], "w1")
    await bed.claims.record([StageReport(first, run_reports(first, ["a shining city"]))])
    (second,) = await bed.claims.claim([message], "w2")
    report = judged(second)
    assert report.executions == ()
    await bed.claims.record([report])
    assert (await bed.job(first.id)).context == {"enhance": {"text": "a shining city"}}


async def test_a_returned_job_is_charged_neither_attempt_nor_delivery(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    (message,) = await bed.messages()
    for _ in range(MAX_DELIVERIES * 2):
        (claimed,) = await bed.claims.claim([message], "w1")
        assert claimed.attempt == 1
        assert await bed.claims.record([StageReport(claimed, verdict=Returned())]) == {job}
    record = await bed.job(job)
    assert (record.head.state, record.generation) == (JobState.QUEUED, 1)
    assert await bed.published() == []


async def test_claims_in_a_row_without_progress_are_counted(bed: Bed) -> None:
    await bed.submit(MATRIX)
    (message,) = await bed.messages()
    counts = [one.deliveries for _ in range(3) for one in await bed.claims.claim([message], "w1")]
    assert counts == [1, 2, 3]
    (claimed,) = await bed.claims.claim([message], "w1")
    await bed.claims.record([StageReport(claimed, run_reports(claimed, "abcd")[:1])])
    (again,) = await bed.claims.claim([message], "w1")
    assert again.deliveries == 2  # the last claim made progress, and this one is the second


async def test_the_last_allowed_delivery_still_works(bed: Bed) -> None:
    await bed.submit()
    (message,) = await bed.messages()
    deliveries = [await bed.claims.claim([message], "w1") for _ in range(MAX_DELIVERIES)]
    (claimed,) = deliveries[-1]
    report = await bed.run(claimed, "answer")
    assert isinstance(report.verdict, Finished)
