"""Results: recorded once, with the events and messages that they cause."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from beacon_contracts.ids import JobId, new_uuid
from beacon_contracts.inference import Timing
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.execution.stage_result import Deferred, ExecutionReport, StageReport
from beacon_runner.domain.queue.messages import Topic
from tests.integration.runner_store.harness import (
    GENERATION,
    MATRIX,
    NOW,
    PIPELINE,
    StoreHarness,
    judged,
    run_reports,
)


async def test_a_generation_completes_in_one_write(
    harness: StoreHarness,
) -> None:
    job = await harness.submit()
    await harness.run(await harness.claim(), "a cat")
    record = await harness.job(job)
    assert (record.head.state, record.head.completed) == (JobState.COMPLETED, 1)
    assert record.head.finished_at is not None
    execution = (await harness.executions(job))[0]
    assert (execution.output, execution.newest.backend) == ({"text": "a cat"}, "us-1")
    assert execution.newest.timing == Timing(queued_s=0.5, load_s=0.0, run_s=1.25)
    assert await harness.events(job) == [
        "JOB_QUEUED",
        "EXECUTION_START",
        "EXECUTION_COMPLETE",
        "JOB_COMPLETE",
    ]
    assert await harness.published() == []


async def test_events_are_numbered_without_gaps_and_read_from_any_number(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    claimed = await harness.claim()
    first, *rest = run_reports(claimed, ["a", "b", "c", "d"])
    await harness.claims.record([StageReport(claimed, (first,))])
    whole = judged(claimed, "a", "b", "c", "d")
    await harness.claims.record([StageReport(claimed, tuple(rest), verdict=whole.verdict)])
    record = await harness.job(job)
    everything = await harness.queries.events(record, 0, 100)
    assert [event.seq for event in everything] == list(range(1, 11))
    for after in range(12):
        later = await harness.queries.events(record, after, 100)
        assert [event.seq for event in later] == list(range(after + 1, 11))


async def test_an_event_that_happened_earlier_keeps_its_time(harness: StoreHarness) -> None:
    job = await harness.submit()
    await harness.run(await harness.claim(), "a cat")
    _, start, complete, _ = await harness.queries.events(await harness.job(job), 0, 10)
    assert start.at == NOW
    assert complete.at > NOW


@pytest.mark.parametrize("nothing", ["", None, [], {}])
async def test_an_empty_answer_is_completed(harness: StoreHarness, nothing: object) -> None:
    """An empty model answer was once shown as a failure."""
    job = await harness.submit()
    claimed = await harness.claim()
    (report,) = run_reports(claimed, ["x"])
    empty = ExecutionReport(report.execution, ExecutionState.COMPLETED, 1, nothing)
    whole = judged(claimed, "x")
    await harness.claims.record([StageReport(claimed, (empty,), verdict=whole.verdict)])
    assert (await harness.job(job)).head.state is JobState.COMPLETED
    execution = (await harness.executions(job))[0]
    assert (execution.newest.state, execution.output) == (ExecutionState.COMPLETED, nothing)


async def test_an_output_with_any_character_is_stored(harness: StoreHarness) -> None:
    job = await harness.submit()
    await harness.run(await harness.claim(), "a\0b\x1f\ufffe🦜")
    assert (await harness.executions(job))[0].output == {"text": "a\0b\x1f\ufffe🦜"}


async def test_progress_is_counted_and_the_job_stays_with_its_worker(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    claimed = await harness.claim()
    reports = run_reports(claimed, ["a", "later", "never", "d"])
    await harness.claims.record([StageReport(claimed, reports[:3])])
    head = (await harness.job(job)).head
    assert (head.state, head.completed, head.failed) == (JobState.PROCESSING, 1, 2)
    assert await harness.published() == []


async def test_the_same_progress_written_twice_counts_once(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    claimed = await harness.claim()
    report = StageReport(claimed, run_reports(claimed, ["a", "b", "c", "d"])[:2])
    await harness.claims.record([report])
    await harness.claims.record([report])
    assert (await harness.job(job)).head.completed == 2


async def test_a_completed_execution_is_never_overwritten(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    claimed = await harness.claim()
    first, *_ = run_reports(claimed, ["first", "b", "c", "d"])
    other, *_ = run_reports(claimed, ["never", "b", "c", "d"])
    await harness.claims.record([StageReport(claimed, (first,))])
    await harness.claims.record([StageReport(claimed, (other,))])
    execution = (await harness.executions(job))[0]
    assert (execution.newest.state, execution.output) == (ExecutionState.COMPLETED, {"text": "first"})


async def test_retryable_failures_wait_and_completed_executions_are_kept(
    harness: StoreHarness,
) -> None:
    job = await harness.submit(MATRIX)
    await harness.run(await harness.claim(), "a", "later", "never", "d")
    record = await harness.job(job)
    assert (record.head.state, record.head.attempt) == (JobState.RETRYING, 2)
    assert record.next_attempt_at is not None
    assert timedelta(seconds=50) < record.next_attempt_at - datetime.now(UTC) <= timedelta(seconds=60)
    states = {number: one.newest.state for number, one in (await harness.executions(job)).items()}
    assert states == {
        0: ExecutionState.COMPLETED,
        1: ExecutionState.PENDING,
        2: ExecutionState.FAILED,
        3: ExecutionState.COMPLETED,
    }
    assert (record.head.completed, record.head.failed) == (2, 1)
    (entry,) = await harness.published()
    assert (entry.topic, entry.message.generation, entry.message.attempt) == (Topic.RETRY, 2, 2)
    assert entry.not_before == pytest.approx(record.next_attempt_at.timestamp(), abs=0.001)


async def test_a_retry_runs_retryable_failures_and_keeps_the_attempt(
    harness: StoreHarness,
) -> None:
    job = await harness.submit(MATRIX)
    await harness.run(await harness.claim(), "a", "later", "never", "d")
    claimed = await harness.claim()
    report = await harness.run(claimed, "b at last")
    assert [one.execution.ordinal for one in report.executions] == [1]
    assert report.executions[0].attempt == 2
    head = (await harness.job(job)).head
    assert (head.state, head.completed, head.failed) == (JobState.PARTIAL, 3, 1)
    (earlier,) = await harness.queries.attempts(job, 0, 1)
    assert (earlier.attempt, earlier.state) == (1, ExecutionState.FAILED)
    assert earlier.failure is not None


async def test_a_job_is_live_while_a_region_is_retried(harness: StoreHarness) -> None:
    """A job was once completed 83 seconds before its last region had finished."""
    job = await harness.submit(MATRIX)
    await harness.run(await harness.claim(), "a", "later", "c", "d")
    assert (await harness.job(job)).head.finished_at is None
    claimed = await harness.claim()
    (execution,) = [report.execution for report in run_reports(claimed, ["x"])]
    running = ExecutionReport(execution, ExecutionState.RUNNING, 2, started_at=NOW.timestamp())
    await harness.claims.record([StageReport(claimed, (running,))])
    head = (await harness.job(job)).head
    assert (head.finished_at, head.completed) == (None, 3)
    await harness.run(claimed, "b")
    assert (await harness.job(job)).head.state is JobState.COMPLETED


async def test_a_deferred_job_is_charged_no_attempt(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    claimed = await harness.claim()
    await harness.claims.record([StageReport(claimed, verdict=Deferred(5.0, "the router is full"))])
    record = await harness.job(job)
    assert (record.head.state, record.head.attempt, record.generation) == (JobState.QUEUED, 1, 2)
    (entry,) = await harness.published()
    assert entry.topic is Topic.RETRY
    assert (await harness.events(job))[-1] == "WAITING"
    (again,) = await harness.claims.claim([entry.message], "w2")
    assert again.attempt == 1
    assert await harness.database.fetchval("SELECT deliveries FROM jobs WHERE id = $1", job) == 1


async def test_a_permanent_failure_is_a_dead_letter_at_once(harness: StoreHarness) -> None:
    job = await harness.submit()
    await harness.run(await harness.claim(), "never")
    head = (await harness.job(job)).head
    assert (head.state, head.failed) == (JobState.FAILED, 1)
    (entry,) = await harness.published()
    assert entry.topic is Topic.DEAD
    (letter,) = await harness.dead_letters.page(None, 10)
    assert (letter.job, letter.reason, letter.failure.code) == (job, "permanent_failure", "refused")


async def test_a_pipeline_advances_in_one_write(harness: StoreHarness) -> None:
    job = await harness.submit(PIPELINE)
    await harness.run(await harness.claim(), "a shining city")
    record = await harness.job(job)
    assert (record.head.state, record.head.stage, record.head.completed) == (JobState.QUEUED, 1, 1)
    assert record.context == {"enhance": {"text": "a shining city"}}
    claimed = await harness.claim()
    assert claimed.context == record.context
    await harness.run(claimed, "picture")
    record = await harness.job(job)
    assert record.head.state is JobState.COMPLETED
    assert set(record.context) == {"enhance", "draw"}
    assert await harness.events(job) == [
        "JOB_QUEUED",
        "STEP_START",
        "EXECUTION_START",
        "EXECUTION_COMPLETE",
        "STEP_COMPLETE",
        "STEP_START",
        "EXECUTION_START",
        "EXECUTION_COMPLETE",
        "STEP_COMPLETE",
        "JOB_COMPLETE",
    ]


async def test_a_failed_step_keeps_the_results_of_the_earlier_ones(harness: StoreHarness) -> None:
    job = await harness.submit(PIPELINE)
    await harness.run(await harness.claim(), "a shining city")
    await harness.run(await harness.claim(), "never")
    record = await harness.job(job)
    assert (record.head.state, record.head.completed, record.head.failed) == (JobState.PARTIAL, 1, 1)
    assert record.context == {"enhance": {"text": "a shining city"}}


async def test_steps_that_never_ran_count_as_cancelled(harness: StoreHarness) -> None:
    job = await harness.submit(PIPELINE)
    await harness.run(await harness.claim(), "never")
    head = (await harness.job(job)).head
    assert (head.completed, head.failed, head.cancelled) == (0, 1, 1)


async def test_many_jobs_of_all_kinds_share_one_write(harness: StoreHarness) -> None:
    jobs = [await harness.submit(kind) for kind in (GENERATION, MATRIX, PIPELINE, GENERATION, GENERATION)]
    claimed = {one.id: one for one in await harness.claims.claim(await harness.messages(), "w")}
    outcomes = [["a"], ["a", "b", "c", "later"], ["x"], ["never"], ["b"]]
    reports = [judged(claimed[job], *chosen) for job, chosen in zip(jobs, outcomes, strict=True)]
    await harness.cancel(jobs[4])
    assert await harness.claims.record(reports) == set(jobs[:4])
    states = [(await harness.job(job)).head.state for job in jobs]
    assert states == [
        JobState.COMPLETED,
        JobState.RETRYING,
        JobState.QUEUED,
        JobState.FAILED,
        JobState.CANCELLED,
    ]
    assert await harness.executions(jobs[4]) == {}


async def test_each_report_of_a_shared_write_is_checked_by_its_fence(
    harness: StoreHarness,
) -> None:
    jobs = [await harness.submit() for _ in range(4)]
    messages = await harness.messages()
    first = await harness.claims.claim(messages, "w1")
    again = await harness.claims.claim(messages[:2], "w2")  # the first worker has lost these two
    assert {one.fence for one in again}.isdisjoint({one.fence for one in first})
    late = [judged(one, "late") for one in first if one.id != again[0].id]
    new = [judged(again[0], "new")]
    kept = {message.job for message in messages[2:]} | {again[0].id}
    assert await harness.claims.record([*late, *new]) == kept
    outputs = {job: [one.output["text"] for one in (await harness.executions(job)).values()] for job in jobs}
    expected = {message.job: ["late"] for message in messages[2:]}
    assert outputs == {**expected, again[0].id: ["new"], again[1].id: []}


async def test_counts_do_not_depend_on_the_order_of_writes(harness: StoreHarness) -> None:
    jobs: list[JobId] = [await harness.submit(MATRIX) for _ in range(5)]
    claimed = await harness.claims.claim(await harness.messages(), "w")
    reports = [judged(one, "a", "b", "never", "d") for one in claimed]
    pieces = [StageReport(one.claimed, (execution,)) for one in reports for execution in one.executions]
    await asyncio.gather(*(harness.claims.record([piece]) for piece in pieces))
    await harness.claims.record(
        [StageReport(one.claimed, verdict=one.verdict, earlier=one.executions) for one in reports]
    )
    for job in jobs:
        head = (await harness.job(job)).head
        assert (head.state, head.completed, head.failed) == (JobState.PARTIAL, 3, 1)


async def test_reports_of_a_removed_job_store_no_events(harness: StoreHarness) -> None:
    job = await harness.submit()
    await harness.run(await harness.claim(), "x")
    seen = await harness.job(job)
    gone = replace(seen, head=replace(seen.head, id=JobId(new_uuid())))
    assert await harness.queries.events(gone, 1, 100) == []
