"""What users and operators do to jobs: cancel, resume, retry one, requeue, purge."""

import asyncio
from collections.abc import Sequence

import pytest

from beacon_contracts.ids import JobId, UserId, new_uuid
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_runner.domain.errors import (
    ExecutionNotFoundError,
    JobNotFoundError,
    JobStateError,
    NotRetryableError,
    RetriesExhaustedError,
)
from beacon_runner.domain.messages import Topic
from beacon_runner.domain.plan import stage_plan
from beacon_runner.domain.stage_result import ExecutionReport, StageReport
from beacon_runner.domain.verdict import decide
from beacon_runner.postgres.dead_letters import PostgresDeadLetters
from tests.integration.runner_store.bed import (
    GENERATION,
    MATRIX,
    NOW,
    PIPELINE,
    POLICY,
    USER,
    Bed,
    judged,
    run_reports,
)

STRANGER = UserId(new_uuid())


async def test_a_queued_job_is_cancelled_and_stays_readable(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    assert await bed.cancel(job, USER) == []
    head = (await bed.job(job)).head
    assert (head.state, head.cancelled) == (JobState.CANCELLED, 4)
    assert await bed.events(job) == ["JOB_QUEUED", "JOB_CANCELLED"]


async def test_cancelling_a_running_job_names_what_may_run_and_late_results_change_nothing(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    claimed = await bed.claim()
    reports = run_reports(claimed, ["a", "b", "c", "d"])
    running = ExecutionReport(reports[1].execution, ExecutionState.RUNNING, 1, started_at=NOW.timestamp())
    await bed.claims.record([StageReport(claimed, (reports[0], running))])
    (cancelled,) = await bed.cancel(job, USER)
    assert [place.ordinal for place in cancelled.executions] == [1, 2, 3]
    assert await bed.claims.record([judged(claimed, "a", "b", "c", "d")]) == frozenset()
    states = {number: one.newest.state for number, one in (await bed.executions(job)).items()}
    assert states == {0: ExecutionState.COMPLETED, 1: ExecutionState.CANCELLED}
    head = (await bed.job(job)).head
    assert (head.state, head.completed, head.cancelled) == (JobState.CANCELLED, 1, 3)


async def test_cancelling_twice_changes_nothing_and_a_finished_job_cannot_be_cancelled(bed: Bed) -> None:
    job = await bed.submit()
    await bed.jobs.cancel(job, USER)
    await bed.jobs.cancel(job, USER)
    assert await bed.events(job) == ["JOB_QUEUED", "JOB_CANCELLED"]
    done = await bed.submit()
    await bed.run((await bed.claims.claim([m for m in await bed.messages() if m.job == done], "w"))[0], "x")
    with pytest.raises(JobStateError) as raised:
        await bed.jobs.cancel(done, USER)
    assert raised.value.state is JobState.COMPLETED


async def test_cancel_and_the_result_at_the_same_moment_have_one_winner(bed: Bed) -> None:
    for _ in range(10):
        job = await bed.submit()
        claimed = await bed.claim()
        applied, cancelled = await asyncio.gather(
            bed.claims.record([judged(claimed, "x")]), bed.cancel(job, USER), return_exceptions=True
        )
        state = (await bed.job(job)).head.state
        if isinstance(applied, frozenset) and applied:
            assert state is JobState.COMPLETED
            assert isinstance(cancelled, JobStateError)
        else:
            assert state is JobState.CANCELLED
            assert await bed.executions(job) == {}


@pytest.mark.parametrize("action", ["cancel", "resume"])
async def test_another_user_s_job_is_not_there(bed: Bed, action: str) -> None:
    job = await bed.submit()
    with pytest.raises(JobNotFoundError):
        await getattr(bed.jobs, action)(job, STRANGER)
    with pytest.raises(JobNotFoundError):
        await bed.jobs.retry(job, 0, 0, STRANGER)
    assert (await bed.job(job)).head.state is JobState.QUEUED


async def test_resuming_runs_what_failed_and_keeps_what_finished(bed: Bed) -> None:
    job = await bed.dead(MATRIX, "a", "b", "never", "later")
    await bed.jobs.resume(job, USER)
    record = await bed.job(job)
    assert (record.head.state, record.head.attempt, record.head.failure) == (JobState.QUEUED, 1, None)
    assert await bed.dead_letters.count() == 0
    claimed = await bed.claim()
    report = await bed.run(claimed, "d at last")
    assert [(one.execution.ordinal, one.attempt) for one in report.executions] == [(3, POLICY.retries + 2)]
    head = (await bed.job(job)).head
    assert (head.state, head.completed, head.failed) == (JobState.PARTIAL, 3, 1)
    assert "JOB_QUEUED" in (await bed.events(job))[1:]


async def test_a_pipeline_resumes_from_its_failed_step(bed: Bed) -> None:
    job = await bed.submit(PIPELINE)
    await bed.run(await bed.claim(), "a shining city")
    for _ in range(3):
        await bed.run(await bed.claim(), "later")
    assert (await bed.job(job)).head.state is JobState.PARTIAL
    await bed.published()
    await bed.jobs.resume(job, USER)
    claimed = await bed.claim()
    assert (claimed.stage, claimed.context) == (1, {"enhance": {"text": "a shining city"}})
    await bed.run(claimed, "picture")
    assert (await bed.job(job)).head.state is JobState.COMPLETED


async def test_what_failed_for_good_or_did_not_fail_cannot_be_resumed(bed: Bed) -> None:
    with pytest.raises(NotRetryableError):
        await bed.jobs.resume(await bed.dead(GENERATION, "never"), USER)
    with pytest.raises(JobStateError):
        await bed.jobs.resume(await bed.submit(), USER)


async def test_resuming_twice_at_once_queues_once(bed: Bed) -> None:
    job = await bed.dead(GENERATION, "later")
    results = await asyncio.gather(*(bed.jobs.resume(job, USER) for _ in range(5)), return_exceptions=True)
    assert sum(result is None for result in results) == 1
    assert len(await bed.published()) == 1


async def test_one_failed_execution_is_retried_alone(bed: Bed) -> None:
    job = await bed.dead(MATRIX, "a", "later", "c", "later")
    answer = await bed.jobs.retry(job, 0, 1, USER)
    assert (answer.run, answer.retry_attempt, answer.max_attempts) == (True, 1, 3)
    claimed = await bed.claim()
    report = await bed.run(claimed, "later")
    assert [one.execution.ordinal for one in report.executions] == [1]
    record = await bed.job(job)
    assert (record.head.state, record.head.completed, record.head.failed) == (JobState.PARTIAL, 2, 2)
    assert {entry.topic for entry in await bed.published()} == {Topic.DEAD}


async def test_a_retry_that_succeeds_completes_the_job(bed: Bed) -> None:
    job = await bed.dead(MATRIX, "a", "later", "c", "d")
    await bed.jobs.retry(job, 0, 1, USER)
    await bed.run(await bed.claim(), "b at last")
    assert (await bed.job(job)).head.state is JobState.COMPLETED
    assert len(await bed.queries.attempts(job, 0, 1)) == POLICY.retries + 1


async def test_retrying_what_is_in_flight_or_completed_starts_no_second_run(bed: Bed) -> None:
    job = await bed.dead(MATRIX, "a", "later", "c", "d")
    assert (await bed.jobs.retry(job, 0, 0, USER)).state is ExecutionState.COMPLETED
    first, *others = await asyncio.gather(*(bed.jobs.retry(job, 0, 1, USER) for _ in range(5)))
    assert sum(answer.run for answer in (first, *others)) == 1
    assert len(await bed.published()) == 1


async def test_two_failed_executions_are_retried_one_after_another_and_run_together(bed: Bed) -> None:
    job = await bed.dead(MATRIX, "a", "later", "c", "later")
    for ordinal in (1, 3):
        answer = await bed.jobs.retry(job, 0, ordinal, USER)
        assert (answer.run, answer.state) == (True, ExecutionState.PENDING)
    head = (await bed.job(job)).head
    assert (head.state, head.completed, head.failed) == (JobState.QUEUED, 2, 0)
    await bed.run(await bed.claim(), "b", "d")
    assert (await bed.job(job)).head.state is JobState.COMPLETED


async def test_what_its_running_job_has_given_up_on_is_not_said_to_run(bed: Bed) -> None:
    job = await bed.dead(MATRIX, "a", "later", "c", "later")
    await bed.jobs.retry(job, 0, 1, USER)
    claimed = await bed.claim()
    with pytest.raises(JobStateError, match="when it has ended"):
        await bed.jobs.retry(job, 0, 3, USER)
    await bed.run(claimed, "b")
    assert (await bed.jobs.retry(job, 0, 3, USER)).run


async def test_retries_are_used_up_after_three(bed: Bed) -> None:
    job = await bed.dead(GENERATION, "later")
    for number in range(1, 4):
        answer = await bed.jobs.retry(job, 0, 0, USER)
        assert answer.retry_attempt == number
        await bed.run(await bed.claim(), "later")
        await bed.published()
    with pytest.raises(RetriesExhaustedError) as raised:
        await bed.jobs.retry(job, 0, 0, USER)
    assert (raised.value.retry_attempt, raised.value.max_attempts) == (3, 3)


async def test_what_cannot_be_retried_says_why(bed: Bed) -> None:
    refused = await bed.dead(GENERATION, "never")
    with pytest.raises(NotRetryableError):
        await bed.jobs.retry(refused, 0, 0, USER)
    with pytest.raises(ExecutionNotFoundError):
        await bed.jobs.retry(refused, 0, 1, USER)
    cancelled = await bed.submit()
    await bed.jobs.cancel(cancelled, USER)
    with pytest.raises(JobStateError):
        await bed.jobs.retry(cancelled, 0, 0, USER)


async def test_requeueing_dead_letters_resets_attempts_and_runs_even_what_failed_for_good(bed: Bed) -> None:
    jobs = [await bed.dead(GENERATION, outcome) for outcome in ("never", "later", "never")]
    assert sorted(await bed.dead_letters.requeue(jobs[:2])) == sorted(jobs[:2])
    assert {entry.message.job for entry in await bed.published()} == set(jobs[:2])
    assert [letter.job for letter in await bed.dead_letters.page(None, 10)] == [jobs[2]]
    assert await bed.dead_letters.requeue(None) == [jobs[2]]
    assert await bed.dead_letters.count() == 0
    claimed = await bed.claim()
    assert (claimed.attempt, [one.state for one in claimed.recorded_executions]) == (
        1,
        [ExecutionState.PENDING],
    )
    await bed.run(claimed, "fixed")
    assert (await bed.job(jobs[2])).head.state is JobState.COMPLETED


async def test_a_requeued_job_runs_what_was_cancelled_at_the_router_too(bed: Bed) -> None:
    job = await bed.submit(MATRIX)
    claimed = await bed.claim()
    *done, last = run_reports(claimed, ["a", "b", "c", "d"])
    cancelled = ExecutionReport(last.execution, ExecutionState.CANCELLED, 1, finished_at=NOW.timestamp())
    plan, reports = stage_plan(claimed.spec, 0, {}), (*done, cancelled)
    await bed.claims.record(
        [StageReport(claimed, reports, verdict=decide(claimed, plan, reports, POLICY, 0.0))]
    )
    await bed.published()
    assert await bed.dead_letters.requeue([job]) == [job]
    report = await bed.run(await bed.claim(), "d at last")
    assert [(one.execution.ordinal, one.attempt) for one in report.executions] == [(3, 2)]
    assert (await bed.job(job)).head.state is JobState.COMPLETED


async def test_dead_letters_are_paged_newest_first_and_purged(bed: Bed) -> None:
    jobs = [await bed.dead(GENERATION, "never") for _ in range(5)]
    first = await bed.dead_letters.page(None, 2)
    second = await bed.dead_letters.page(first[-1].cursor, 2)
    assert [letter.job for letter in first + second] == jobs[::-1][:4]
    assert await bed.dead_letters.purge([jobs[0], JobId(new_uuid())]) == [jobs[0]]
    assert len(await bed.dead_letters.purge(None)) == 4
    assert await bed.dead_letters.requeue(None) == []
    assert (await bed.job(jobs[0])).head.state is JobState.FAILED


async def test_the_list_goes_on_when_the_letters_of_the_page_before_are_gone(bed: Bed) -> None:
    jobs = [await bed.dead(GENERATION, "never") for _ in range(4)]
    first = await bed.dead_letters.page(None, 2)
    await bed.dead_letters.requeue([letter.job for letter in first])
    second = await bed.dead_letters.page(first[-1].cursor, 2)
    assert [letter.job for letter in second] == [jobs[1], jobs[0]]


async def test_requeueing_all_comes_to_an_end_though_they_die_again_at_once(bed: Bed) -> None:
    jobs = [await bed.dead(GENERATION, "never") for _ in range(3)]
    hasty = HastyLetters(bed)
    assert sorted(await hasty.requeue(None)) == sorted(jobs)
    assert await bed.dead_letters.count() == 3


class HastyLetters(PostgresDeadLetters):
    """As if a worker ran what is put back, and failed, before the next step."""

    def __init__(self, bed: Bed) -> None:
        super().__init__(bed.database)
        self._bed = bed
        self._steps = 0

    async def _requeue_batch(self, jobs: Sequence[JobId]) -> list[JobId]:
        self._steps += 1
        assert self._steps < 5
        requeued = await super()._requeue_batch(jobs)
        for message in await self._bed.messages():
            (claimed,) = await self._bed.claims.claim([message], "w1")
            await self._bed.run(claimed, "never")
        await self._bed.published()
        return requeued


async def test_a_letter_whose_job_was_resumed_is_gone(bed: Bed) -> None:
    job = await bed.dead(GENERATION, "later")
    await bed.jobs.resume(job, USER)
    assert await bed.dead_letters.requeue([job]) == []
    assert len(await bed.published()) == 1
