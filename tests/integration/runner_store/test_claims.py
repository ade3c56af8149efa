"""Claims: the holder of a job, and refused writes of others."""

import asyncio

import pytest

from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.execution.stage_result import ExecutionReport, Finished, Returned, StageReport
from beacon_runner.postgres.accounts.users import PostgresUsers
from tests.integration.runner_store.harness import (
    MATRIX,
    MAX_DELIVERIES,
    NOW,
    PIPELINE,
    StoreHarness,
    judged,
    run_reports,
)


async def test_a_claim_returns_everything_the_worker_needs(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    claimed = await harness.claim("w7")
    assert (claimed.id, claimed.stage, claimed.attempt) == (job, 0, 1)
    assert claimed.spec == MATRIX.spec
    record = await harness.job(job)
    assert (record.head.state, record.claimed, record.head.started_at) == (JobState.QUEUED, True, None)


async def test_a_job_is_processing_when_an_execution_has_started(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    claimed = await harness.claim()
    first, second, *_ = (one.execution for one in run_reports(claimed, "abcd"))
    waits = [ExecutionReport(one, ExecutionState.QUEUED, 1) for one in (first, second)]
    await harness.claims.record([StageReport(claimed, tuple(waits))])
    record = await harness.job(job)
    assert (record.head.state, record.head.started_at) == (JobState.QUEUED, None)
    runs = ExecutionReport(second, ExecutionState.RUNNING, 1, started_at=NOW.timestamp())
    await harness.claims.record([StageReport(claimed, (runs,))])
    record = await harness.job(job)
    assert (record.head.state, record.head.started_at) == (JobState.PROCESSING, NOW)
    newest = {number: one.newest for number, one in (await harness.executions(job)).items()}
    assert {number: (one.state, one.started_at) for number, one in newest.items()} == {
        0: (ExecutionState.QUEUED, None),
        1: (ExecutionState.RUNNING, NOW),
    }


async def test_an_execution_that_waits_again_has_no_start(harness: StoreHarness) -> None:
    await harness.submit()
    claimed = await harness.claim()
    (done,) = run_reports(claimed, ["answer"])
    running = ExecutionReport(
        done.execution, ExecutionState.RUNNING, 1, backend="us-1", started_at=NOW.timestamp()
    )
    for report in (running, ExecutionReport(done.execution, ExecutionState.QUEUED, 1)):
        await harness.claims.record([StageReport(claimed, (report,))])
    newest = (await harness.executions(claimed.id))[0].newest
    assert (newest.state, newest.started_at, newest.backend) == (ExecutionState.QUEUED, None, None)


async def test_a_verdict_is_recorded_once(harness: StoreHarness) -> None:
    """The answer to the first write may be lost, and the worker repeats it."""
    await harness.submit(PIPELINE)
    report = judged(await harness.claim(), "a shining city")
    assert await harness.claims.record([report]) == {report.claimed.id}
    assert await harness.claims.record([report]) == frozenset()
    assert len(await harness.published()) == 1


async def test_a_claim_has_the_current_weight_of_its_user(harness: StoreHarness) -> None:
    users = PostgresUsers(harness.database)
    user = await users.add("anna", "free", "bk_anna", weight=2.0)
    await harness.submit(user=user.id)
    await users.change(user.id, tier=None, disabled=None, weight=3.0)
    assert (await harness.claim()).weight == 3.0


@pytest.mark.parametrize(("submitted", "claimed"), [("", "queue_3"), ("anna", "anna")])
async def test_a_claim_stores_the_lane_that_the_queue_has_chosen(
    harness: StoreHarness, submitted: str, claimed: str
) -> None:
    job = await harness.submit(lane=submitted)
    (message,) = await harness.messages()
    await harness.claims.claim([message._replace(lane=claimed)], "w1")
    assert (await harness.job(job)).lane == claimed


async def test_a_second_delivery_fences_the_first_worker(harness: StoreHarness) -> None:
    await harness.submit()
    (message,) = await harness.messages()
    (first,) = await harness.claims.claim([message], "w1")
    (second,) = await harness.claims.claim([message], "w2")
    assert second.fence > first.fence
    assert await harness.claims.record([judged(first, "late answer")]) == frozenset()
    assert await harness.claims.record([judged(second, "answer")]) == {second.id}
    assert (await harness.executions(second.id))[0].output == {"text": "answer"}


async def test_a_worker_with_an_old_fence_changes_nothing(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    (message,) = await harness.messages()
    (first,) = await harness.claims.claim([message], "w1")
    await harness.claims.claim([message], "w2")
    before = (await harness.job(job), await harness.events(job))
    reports = run_reports(first, ["a", "b", "later", "never"])
    for verdict in (None, Returned(), judged(first, "a", "b", "c", "d").verdict):
        assert await harness.claims.record([StageReport(first, reports, verdict=verdict)]) == frozenset()
    assert (await harness.job(job), await harness.events(job)) == before
    assert await harness.executions(job) == {}
    assert await harness.published() == []


async def test_a_copy_of_an_old_message_is_recognised_by_its_generation(harness: StoreHarness) -> None:
    await harness.submit(PIPELINE)
    (old,) = await harness.messages()
    (claimed,) = await harness.claims.claim([old], "w1")
    await harness.run(claimed, "a shining city")
    assert await harness.claims.claim([old], "w2") == []
    (new,) = await harness.messages()
    assert (new.generation, new.stage) == (2, 1)
    assert len(await harness.claims.claim([old, new], "w2")) == 1


async def test_a_finished_or_cancelled_job_is_not_claimed(harness: StoreHarness) -> None:
    await harness.submit()
    cancelled = await harness.submit()
    messages = await harness.messages()
    claimed = await harness.claims.claim(messages[:1], "w1")
    await harness.run(claimed[0], "answer")
    await harness.cancel(cancelled)
    assert await harness.claims.claim(messages, "w1") == []


async def test_each_of_many_jobs_is_claimed_by_one_worker(harness: StoreHarness) -> None:
    jobs = [await harness.submit() for _ in range(40)]
    messages = await harness.messages()
    halves = await asyncio.gather(
        *(harness.claims.claim(messages[start::4], f"w{start}") for start in range(4))
    )
    claimed = [one.id for half in halves for one in half]
    assert sorted(claimed) == sorted(jobs)


async def test_claims_in_opposite_order_do_not_deadlock(
    harness: StoreHarness,
) -> None:
    for _ in range(30):
        await harness.submit()
    messages = await harness.messages()
    first, second = await asyncio.gather(
        harness.claims.claim(messages, "w1"), harness.claims.claim(messages[::-1], "w2")
    )
    assert len(first) == len(second) == 30


async def test_a_lost_worker_s_progress_is_known_to_the_next(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    (message,) = await harness.messages()
    (first,) = await harness.claims.claim([message], "w1")
    done, started, *_ = run_reports(first, ["a", "b", "c", "d"])
    running = ExecutionReport(started.execution, ExecutionState.RUNNING, 1, started_at=NOW.timestamp())
    await harness.claims.record([StageReport(first, (done, running))])
    (second,) = await harness.claims.claim([message], "w2")
    assert {(one.ordinal, one.state, one.attempt) for one in second.recorded_executions} == {
        (0, ExecutionState.COMPLETED, 1),
        (1, ExecutionState.RUNNING, 1),
    }
    assert len(judged(second, "x", "y", "z").executions) == 3
    assert (await harness.job(job)).head.completed == 1


async def test_a_step_recorded_before_a_crash_keeps_its_result(harness: StoreHarness) -> None:
    await harness.submit(PIPELINE)
    (message,) = await harness.messages()
    (first,) = await harness.claims.claim([message], "w1")
    await harness.claims.record([StageReport(first, run_reports(first, ["a shining city"]))])
    (second,) = await harness.claims.claim([message], "w2")
    report = judged(second)
    assert report.executions == ()
    await harness.claims.record([report])
    assert (await harness.job(first.id)).context == {"enhance": {"text": "a shining city"}}


async def test_a_returned_job_is_charged_neither_attempt_nor_delivery(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    (message,) = await harness.messages()
    for _ in range(MAX_DELIVERIES * 2):
        (claimed,) = await harness.claims.claim([message], "w1")
        assert claimed.attempt == 1
        assert await harness.claims.record([StageReport(claimed, verdict=Returned())]) == {job}
    record = await harness.job(job)
    assert (record.head.state, record.generation) == (JobState.QUEUED, 1)
    assert await harness.published() == []


async def test_claims_in_a_row_without_progress_are_counted(harness: StoreHarness) -> None:
    await harness.submit(MATRIX)
    (message,) = await harness.messages()
    counts = [one.deliveries for _ in range(3) for one in await harness.claims.claim([message], "w1")]
    assert counts == [1, 2, 3]
    (claimed,) = await harness.claims.claim([message], "w1")
    await harness.claims.record([StageReport(claimed, run_reports(claimed, "abcd")[:1])])
    (again,) = await harness.claims.claim([message], "w1")
    assert again.deliveries == 2  # the last claim made progress, and this one is the second


async def test_the_last_allowed_delivery_is_processed(harness: StoreHarness) -> None:
    await harness.submit()
    (message,) = await harness.messages()
    deliveries = [await harness.claims.claim([message], "w1") for _ in range(MAX_DELIVERIES)]
    (claimed,) = deliveries[-1]
    report = await harness.run(claimed, "answer")
    assert isinstance(report.verdict, Finished)
