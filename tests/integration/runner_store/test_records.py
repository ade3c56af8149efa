"""Results: recorded once, with the events and messages that they cause."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from beacon_contracts.ids import JobId, new_uuid
from beacon_contracts.inference import Timing
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.messages import Topic
from beacon_runner.domain.stage_result import Deferred, ExecutionReport, StageReport
from tests.integration.runner_store.bed import (
    GENERATION,
    MATRIX,
    NOW,
    PIPELINE,
    Bed,
    judged,
    run_reports,
)


async def test_a_generation_that_completes_at_the_first_try_is_whole_in_one_write(bed: Bed) -> None:
    job = await bed.submit()
    await bed.run(await bed.claim(), "a cat")
    record = await bed.job(job)
    assert (record.head.state, record.head.completed) == (JobState.COMPLETED, 1)
    assert record.head.finished_at is not None
    execution = (await bed.executions(job))[0]
    assert (execution.output, execution.newest.backend) == ({"text": "a cat"}, "us-1")
    assert execution.newest.timing == Timing(queued_s=0.5, load_s=0.0, run_s=1.25)
    assert await bed.events(job) == ["JOB_QUEUED", "EXECUTION_START", "EXECUTION_COMPLETE", "JOB_COMPLETE"]
    assert await bed.published() == []


async def test_events_are_numbered_without_gaps_and_read_from_any_number(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    claimed = await bed.claim()
    first, *rest = run_reports(claimed, ["a", "b", "c", "d"])
    await bed.claims.record([StageReport(claimed, (first,))])
    whole = judged(claimed, "a", "b", "c", "d")
    await bed.claims.record([StageReport(claimed, tuple(rest), verdict=whole.verdict)])
    record = await bed.job(job)
    everything = await bed.queries.events(record, 0, 100)
    assert [event.seq for event in everything] == list(range(1, 11))
    for after in range(12):
        later = await bed.queries.events(record, after, 100)
        assert [event.seq for event in later] == list(range(after + 1, 11))


async def test_an_event_that_happened_earlier_keeps_its_time(bed: Bed) -> None:
    job = await bed.submit()
    await bed.run(await bed.claim(), "a cat")
    _, start, complete, _ = await bed.queries.events(await bed.job(job), 0, 10)
    assert start.at == NOW
    assert complete.at > NOW


@pytest.mark.parametrize("nothing", ["", None, [], {}])
async def test_an_empty_answer_is_completed(bed: Bed, nothing: object) -> None:
    """An empty model answer was once shown as a failure."""
    job = await bed.submit()
    claimed = await bed.claim()
    (report,) = run_reports(claimed, ["x"])
    empty = ExecutionReport(report.execution, ExecutionState.COMPLETED, 1, nothing)
    whole = judged(claimed, "x")
    await bed.claims.record([StageReport(claimed, (empty,), verdict=whole.verdict)])
    assert (await bed.job(job)).head.state is JobState.COMPLETED
    execution = (await bed.executions(job))[0]
    assert (execution.newest.state, execution.output) == (ExecutionState.COMPLETED, nothing)


async def test_an_answer_with_a_nul_or_any_other_letter_is_stored(bed: Bed) -> None:
    job = await bed.submit()
    await bed.run(await bed.claim(), "a\0b\x1f\ufffe🦜")
    assert (await bed.executions(job))[0].output == {"text": "a\0b\x1f\ufffe🦜"}


async def test_progress_is_counted_and_the_job_stays_with_its_worker(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    claimed = await bed.claim()
    reports = run_reports(claimed, ["a", "later", "never", "d"])
    await bed.claims.record([StageReport(claimed, reports[:3])])
    head = (await bed.job(job)).head
    assert (head.state, head.completed, head.failed) == (JobState.PROCESSING, 1, 2)
    assert await bed.published() == []


async def test_the_same_progress_written_twice_counts_once(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    claimed = await bed.claim()
    report = StageReport(claimed, run_reports(claimed, ["a", "b", "c", "d"])[:2])
    await bed.claims.record([report])
    await bed.claims.record([report])
    assert (await bed.job(job)).head.completed == 2


async def test_a_completed_execution_is_never_overwritten(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    claimed = await bed.claim()
    first, *_ = run_reports(claimed, ["first", "b", "c", "d"])
    other, *_ = run_reports(claimed, ["never", "b", "c", "d"])
    await bed.claims.record([StageReport(claimed, (first,))])
    await bed.claims.record([StageReport(claimed, (other,))])
    execution = (await bed.executions(job))[0]
    assert (execution.newest.state, execution.output) == (ExecutionState.COMPLETED, {"text": "first"})


async def test_retryable_failures_wait_for_their_turn_and_completed_ones_are_kept(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    await bed.run(await bed.claim(), "a", "later", "never", "d")
    record = await bed.job(job)
    assert (record.head.state, record.head.attempt) == (JobState.RETRYING, 2)
    assert record.next_attempt_at is not None
    assert timedelta(seconds=50) < record.next_attempt_at - datetime.now(UTC) <= timedelta(seconds=60)
    states = {number: one.newest.state for number, one in (await bed.executions(job)).items()}
    assert states == {
        0: ExecutionState.COMPLETED,
        1: ExecutionState.PENDING,
        2: ExecutionState.FAILED,
        3: ExecutionState.COMPLETED,
    }
    assert (record.head.completed, record.head.failed) == (2, 1)
    (entry,) = await bed.published()
    assert (entry.topic, entry.message.generation, entry.message.attempt) == (Topic.RETRY, 2, 2)
    assert entry.not_before == pytest.approx(record.next_attempt_at.timestamp(), abs=0.001)


async def test_a_retry_runs_only_what_was_retryable_and_keeps_the_failed_attempt(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    await bed.run(await bed.claim(), "a", "later", "never", "d")
    claimed = await bed.claim()
    report = await bed.run(claimed, "b at last")
    assert [one.execution.ordinal for one in report.executions] == [1]
    assert report.executions[0].attempt == 2
    head = (await bed.job(job)).head
    assert (head.state, head.completed, head.failed) == (JobState.PARTIAL, 3, 1)
    (earlier,) = await bed.queries.attempts(job, 0, 1)
    assert (earlier.attempt, earlier.state) == (1, ExecutionState.FAILED)
    assert earlier.failure is not None


async def test_a_job_is_not_done_while_a_retry_of_one_region_is_under_way(bed: Bed) -> None:
    """A job was once completed 83 seconds before its last region had finished."""
    job = await bed.submit(MATRIX)
    await bed.run(await bed.claim(), "a", "later", "c", "d")
    assert (await bed.job(job)).head.finished_at is None
    claimed = await bed.claim()
    (execution,) = [report.execution for report in run_reports(claimed, ["x"])]
    running = ExecutionReport(execution, ExecutionState.RUNNING, 2, started_at=NOW.timestamp())
    await bed.claims.record([StageReport(claimed, (running,))])
    head = (await bed.job(job)).head
    assert (head.finished_at, head.completed) == (None, 3)
    await bed.run(claimed, "b")
    assert (await bed.job(job)).head.state is JobState.COMPLETED


async def test_a_postponed_job_is_charged_no_attempt(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    claimed = await bed.claim()
    await bed.claims.record([StageReport(claimed, verdict=Deferred(5.0, "the router is full"))])
    record = await bed.job(job)
    assert (record.head.state, record.head.attempt, record.generation) == (JobState.QUEUED, 1, 2)
    (entry,) = await bed.published()
    assert entry.topic is Topic.RETRY
    assert (await bed.events(job))[-1] == "WAITING"
    (again,) = await bed.claims.claim([entry.message], "w2")
    assert again.attempt == 1
    assert await bed.database.fetchval("SELECT deliveries FROM jobs WHERE id = $1", job) == 1


async def test_permanent_failure_is_dead_at_once_and_mirrored(bed: Bed) -> None:
    job = await bed.submit()
    await bed.run(await bed.claim(), "never")
    head = (await bed.job(job)).head
    assert (head.state, head.failed) == (JobState.FAILED, 1)
    (entry,) = await bed.published()
    assert entry.topic is Topic.DEAD
    (letter,) = await bed.dead_letters.page(None, 10)
    assert (letter.job, letter.reason, letter.failure.code) == (job, "permanent_failure", "refused")


async def test_advancing_a_pipeline_is_one_write_result_next_stage_and_message(bed: Bed) -> None:
    job = await bed.submit(PIPELINE)
    await bed.run(await bed.claim(), "a shining city")
    record = await bed.job(job)
    assert (record.head.state, record.head.stage, record.head.completed) == (JobState.QUEUED, 1, 1)
    assert record.context == {"enhance": {"text": "a shining city"}}
    claimed = await bed.claim()
    assert claimed.context == record.context
    await bed.run(claimed, "picture")
    record = await bed.job(job)
    assert record.head.state is JobState.COMPLETED
    assert set(record.context) == {"enhance", "draw"}
    assert await bed.events(job) == [
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


async def test_a_failed_step_keeps_the_results_of_the_earlier_ones(bed: Bed) -> None:
    job = await bed.submit(PIPELINE)
    await bed.run(await bed.claim(), "a shining city")
    await bed.run(await bed.claim(), "never")
    record = await bed.job(job)
    assert (record.head.state, record.head.completed, record.head.failed) == (JobState.PARTIAL, 1, 1)
    assert record.context == {"enhance": {"text": "a shining city"}}


async def test_steps_that_a_failed_pipeline_never_came_to_count_as_cancelled(bed: Bed) -> None:
    job = await bed.submit(PIPELINE)
    await bed.run(await bed.claim(), "never")
    head = (await bed.job(job)).head
    assert (head.completed, head.failed, head.cancelled) == (0, 1, 1)


async def test_many_jobs_of_all_kinds_share_one_write(bed: Bed) -> None:
    jobs = [await bed.submit(kind) for kind in (GENERATION, MATRIX, PIPELINE, GENERATION, GENERATION)]
    claimed = {one.id: one for one in await bed.claims.claim(await bed.messages(), "w")}
    outcomes = [["a"], ["a", "b", "c", "later"], ["x"], ["never"], ["b"]]
    reports = [judged(claimed[job], *chosen) for job, chosen in zip(jobs, outcomes, strict=True)]
    await bed.cancel(jobs[4])
    assert await bed.claims.record(reports) == set(jobs[:4])
    states = [(await bed.job(job)).head.state for job in jobs]
    assert states == [
        JobState.COMPLETED,
        JobState.RETRYING,
        JobState.QUEUED,
        JobState.FAILED,
        JobState.CANCELLED,
    ]
    assert await bed.executions(jobs[4]) == {}


async def test_generations_of_several_fences_share_one_write_and_each_is_held_to_its_own(bed: Bed) -> None:
    jobs = [await bed.submit() for _ in range(4)]
    messages = await bed.messages()
    first = await bed.claims.claim(messages, "w1")
    again = await bed.claims.claim(messages[:2], "w2")  # the first worker has lost these two
    assert {one.fence for one in again}.isdisjoint({one.fence for one in first})
    late = [judged(one, "late") for one in first if one.id != again[0].id]
    new = [judged(again[0], "new")]
    kept = {message.job for message in messages[2:]} | {again[0].id}
    assert await bed.claims.record([*late, *new]) == kept
    outputs = {job: [one.output["text"] for one in (await bed.executions(job)).values()] for job in jobs}
    expected = {message.job: ["late"] for message in messages[2:]}
    assert outputs == {**expected, again[0].id: ["new"], again[1].id: []}


async def test_counts_add_up_whatever_the_order_of_writes(bed: Bed) -> None:
    jobs: list[JobId] = [await bed.submit(MATRIX) for _ in range(5)]
    claimed = await bed.claims.claim(await bed.messages(), "w")
    reports = [judged(one, "a", "b", "never", "d") for one in claimed]
    pieces = [StageReport(one.claimed, (execution,)) for one in reports for execution in one.executions]
    await asyncio.gather(*(bed.claims.record([piece]) for piece in pieces))
    await bed.claims.record(
        [StageReport(one.claimed, verdict=one.verdict, earlier=one.executions) for one in reports]
    )
    for job in jobs:
        head = (await bed.job(job)).head
        assert (head.state, head.completed, head.failed) == (JobState.PARTIAL, 3, 1)


async def test_the_events_of_a_job_that_is_removed_meanwhile_are_gone(bed: Bed) -> None:
    job = await bed.submit()
    await bed.run(await bed.claim(), "x")
    seen = await bed.job(job)
    gone = replace(seen, head=replace(seen.head, id=JobId(new_uuid())))
    assert await bed.queries.events(gone, 1, 100) == []
