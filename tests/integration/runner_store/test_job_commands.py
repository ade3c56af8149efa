"""Commands of users and operators: cancel, resume, retry one execution, requeue, purge."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import pytest

from beacon_contracts.accounts import DisabledJobs
from beacon_contracts.ids import JobId, UserId, new_uuid
from beacon_contracts.jobs import ExecutionState, JobState
from beacon_contracts.operations import JobSelector, OperationAction
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.errors import (
    ExecutionNotFoundError,
    JobNotFoundError,
    JobStateError,
    NotRetryableError,
    RetriesExhaustedError,
)
from beacon_runner.domain.execution.plan import stage_plan
from beacon_runner.domain.execution.stage_result import ExecutionReport, StageReport
from beacon_runner.domain.execution.verdict import decide
from beacon_runner.domain.jobs.operations import Selection
from beacon_runner.domain.queue.messages import Topic
from beacon_runner.postgres.accounts.users import PostgresUsers
from beacon_runner.postgres.jobs.dead_letters import PostgresDeadLetters
from beacon_runner.postgres.jobs.operations import PostgresOperations
from tests.fixtures.waiting import until
from tests.integration.runner_store.harness import (
    GENERATION,
    MATRIX,
    NOW,
    PIPELINE,
    POLICY,
    USER,
    StoreHarness,
    judged,
    run_reports,
)

STRANGER = UserId(new_uuid())


async def test_a_queued_job_is_cancelled_and_stays_readable(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    assert await harness.cancel(job, USER) == []
    head = (await harness.job(job)).head
    assert (head.state, head.cancelled) == (JobState.CANCELLED, 4)
    assert await harness.events(job) == ["JOB_QUEUED", "JOB_CANCELLED"]


async def test_cancelling_a_running_job_returns_its_executions(
    harness: StoreHarness,
) -> None:
    job = await harness.submit(MATRIX)
    claimed = await harness.claim()
    reports = run_reports(claimed, ["a", "b", "c", "d"])
    running = ExecutionReport(reports[1].execution, ExecutionState.RUNNING, 1, started_at=NOW.timestamp())
    await harness.claims.record([StageReport(claimed, (reports[0], running))])
    (cancelled,) = await harness.cancel(job, USER)
    assert [place.ordinal for place in cancelled.executions] == [1, 2, 3]
    assert await harness.claims.record([judged(claimed, "a", "b", "c", "d")]) == frozenset()
    states = {number: one.newest.state for number, one in (await harness.executions(job)).items()}
    assert states == {0: ExecutionState.COMPLETED, 1: ExecutionState.CANCELLED}
    head = (await harness.job(job)).head
    assert (head.state, head.completed, head.cancelled) == (JobState.CANCELLED, 1, 3)


async def test_a_cancelled_or_finished_job_cannot_be_cancelled_again(
    harness: StoreHarness,
) -> None:
    job = await harness.submit()
    await harness.jobs.cancel(job, USER)
    await harness.jobs.cancel(job, USER)
    assert await harness.events(job) == ["JOB_QUEUED", "JOB_CANCELLED"]
    done = await harness.submit()
    await harness.run(
        (await harness.claims.claim([m for m in await harness.messages() if m.job == done], "w"))[0], "x"
    )
    with pytest.raises(JobStateError) as raised:
        await harness.jobs.cancel(done, USER)
    assert raised.value.state is JobState.COMPLETED


async def test_a_concurrent_cancel_and_result_have_one_effect(harness: StoreHarness) -> None:
    for _ in range(10):
        job = await harness.submit()
        claimed = await harness.claim()
        applied, cancelled = await asyncio.gather(
            harness.claims.record([judged(claimed, "x")]), harness.cancel(job, USER), return_exceptions=True
        )
        state = (await harness.job(job)).head.state
        if isinstance(applied, frozenset) and applied:
            assert state is JobState.COMPLETED
            assert isinstance(cancelled, JobStateError)
        else:
            assert state is JobState.CANCELLED
            assert await harness.executions(job) == {}


@pytest.mark.parametrize("action", ["cancel", "resume"])
async def test_another_users_job_is_not_found_by_a_command(harness: StoreHarness, action: str) -> None:
    job = await harness.submit()
    with pytest.raises(JobNotFoundError):
        await getattr(harness.jobs, action)(job, STRANGER)
    with pytest.raises(JobNotFoundError):
        await harness.jobs.retry(job, 0, 0, STRANGER)
    assert (await harness.job(job)).head.state is JobState.QUEUED


async def test_a_resume_runs_failed_and_keeps_completed_executions(harness: StoreHarness) -> None:
    job = await harness.dead(MATRIX, "a", "b", "never", "later")
    await harness.jobs.resume(job, USER)
    record = await harness.job(job)
    assert (record.head.state, record.head.attempt, record.head.failure) == (JobState.QUEUED, 1, None)
    assert await harness.dead_letters.count() == 0
    claimed = await harness.claim()
    report = await harness.run(claimed, "d at last")
    assert [(one.execution.ordinal, one.attempt) for one in report.executions] == [(3, POLICY.retries + 2)]
    head = (await harness.job(job)).head
    assert (head.state, head.completed, head.failed) == (JobState.PARTIAL, 3, 1)
    assert "JOB_QUEUED" in (await harness.events(job))[1:]


async def test_a_pipeline_resumes_from_its_failed_step(harness: StoreHarness) -> None:
    job = await harness.submit(PIPELINE)
    await harness.run(await harness.claim(), "a shining city")
    for _ in range(3):
        await harness.run(await harness.claim(), "later")
    assert (await harness.job(job)).head.state is JobState.PARTIAL
    await harness.published()
    await harness.jobs.resume(job, USER)
    claimed = await harness.claim()
    assert (claimed.stage, claimed.context) == (1, {"enhance": {"text": "a shining city"}})
    await harness.run(claimed, "picture")
    assert (await harness.job(job)).head.state is JobState.COMPLETED


async def test_only_jobs_with_a_retryable_failure_are_resumed(harness: StoreHarness) -> None:
    with pytest.raises(NotRetryableError):
        await harness.jobs.resume(await harness.dead(GENERATION, "never"), USER)
    with pytest.raises(JobStateError):
        await harness.jobs.resume(await harness.submit(), USER)


async def test_concurrent_resumes_queue_once(harness: StoreHarness) -> None:
    job = await harness.dead(GENERATION, "later")
    results = await asyncio.gather(
        *(harness.jobs.resume(job, USER) for _ in range(5)), return_exceptions=True
    )
    assert sum(result is None for result in results) == 1
    assert len(await harness.published()) == 1


async def test_one_failed_execution_is_retried_alone(harness: StoreHarness) -> None:
    job = await harness.dead(MATRIX, "a", "later", "c", "later")
    answer = await harness.jobs.retry(job, 0, 1, USER)
    assert (answer.run, answer.retry_attempt, answer.max_attempts) == (True, 1, 3)
    claimed = await harness.claim()
    report = await harness.run(claimed, "later")
    assert [one.execution.ordinal for one in report.executions] == [1]
    record = await harness.job(job)
    assert (record.head.state, record.head.completed, record.head.failed) == (JobState.PARTIAL, 2, 2)
    assert {entry.topic for entry in await harness.published()} == {Topic.DEAD}


async def test_a_retry_that_succeeds_completes_the_job(harness: StoreHarness) -> None:
    job = await harness.dead(MATRIX, "a", "later", "c", "d")
    await harness.jobs.retry(job, 0, 1, USER)
    await harness.run(await harness.claim(), "b at last")
    assert (await harness.job(job)).head.state is JobState.COMPLETED
    assert len(await harness.queries.attempts(job, 0, 1)) == POLICY.retries + 1


async def test_retrying_a_running_or_completed_execution_starts_no_run(harness: StoreHarness) -> None:
    job = await harness.dead(MATRIX, "a", "later", "c", "d")
    assert (await harness.jobs.retry(job, 0, 0, USER)).state is ExecutionState.COMPLETED
    first, *others = await asyncio.gather(*(harness.jobs.retry(job, 0, 1, USER) for _ in range(5)))
    assert sum(answer.run for answer in (first, *others)) == 1
    assert len(await harness.published()) == 1


async def test_two_retried_executions_run_in_one_delivery(
    harness: StoreHarness,
) -> None:
    job = await harness.dead(MATRIX, "a", "later", "c", "later")
    for ordinal in (1, 3):
        answer = await harness.jobs.retry(job, 0, ordinal, USER)
        assert (answer.run, answer.state) == (True, ExecutionState.PENDING)
    head = (await harness.job(job)).head
    assert (head.state, head.completed, head.failed) == (JobState.QUEUED, 2, 0)
    await harness.run(await harness.claim(), "b", "d")
    assert (await harness.job(job)).head.state is JobState.COMPLETED


async def test_a_failed_execution_of_a_running_job_is_not_running(harness: StoreHarness) -> None:
    job = await harness.dead(MATRIX, "a", "later", "c", "later")
    await harness.jobs.retry(job, 0, 1, USER)
    claimed = await harness.claim()
    with pytest.raises(JobStateError, match="when it has ended"):
        await harness.jobs.retry(job, 0, 3, USER)
    await harness.run(claimed, "b")
    assert (await harness.jobs.retry(job, 0, 3, USER)).run


async def test_retries_are_used_up_after_three(harness: StoreHarness) -> None:
    job = await harness.dead(GENERATION, "later")
    for number in range(1, 4):
        answer = await harness.jobs.retry(job, 0, 0, USER)
        assert answer.retry_attempt == number
        await harness.run(await harness.claim(), "later")
        await harness.published()
    with pytest.raises(RetriesExhaustedError) as raised:
        await harness.jobs.retry(job, 0, 0, USER)
    assert (raised.value.retry_attempt, raised.value.max_attempts) == (3, 3)


async def test_a_refused_retry_has_a_reason(harness: StoreHarness) -> None:
    refused = await harness.dead(GENERATION, "never")
    with pytest.raises(NotRetryableError):
        await harness.jobs.retry(refused, 0, 0, USER)
    with pytest.raises(ExecutionNotFoundError):
        await harness.jobs.retry(refused, 0, 1, USER)
    cancelled = await harness.submit()
    await harness.jobs.cancel(cancelled, USER)
    with pytest.raises(JobStateError):
        await harness.jobs.retry(cancelled, 0, 0, USER)


async def test_requeued_dead_letters_run_permanent_failures_again(
    harness: StoreHarness,
) -> None:
    jobs = [await harness.dead(GENERATION, outcome) for outcome in ("never", "later", "never")]
    assert sorted(await harness.dead_letters.requeue(jobs[:2])) == sorted(jobs[:2])
    assert {entry.message.job for entry in await harness.published()} == set(jobs[:2])
    assert [letter.job for letter in await harness.dead_letters.page(None, 10)] == [jobs[2]]
    assert await harness.dead_letters.requeue(None) == [jobs[2]]
    assert await harness.dead_letters.count() == 0
    claimed = await harness.claim()
    assert (claimed.attempt, [one.state for one in claimed.recorded_executions]) == (
        1,
        [ExecutionState.PENDING],
    )
    await harness.run(claimed, "fixed")
    assert (await harness.job(jobs[2])).head.state is JobState.COMPLETED


async def test_a_requeued_job_runs_executions_cancelled_at_the_router(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    claimed = await harness.claim()
    *done, last = run_reports(claimed, ["a", "b", "c", "d"])
    cancelled = ExecutionReport(last.execution, ExecutionState.CANCELLED, 1, finished_at=NOW.timestamp())
    plan, reports = stage_plan(claimed.spec, 0, {}), (*done, cancelled)
    await harness.claims.record(
        [StageReport(claimed, reports, verdict=decide(claimed, plan, reports, POLICY, 0.0))]
    )
    await harness.published()
    assert await harness.dead_letters.requeue([job]) == [job]
    report = await harness.run(await harness.claim(), "d at last")
    assert [(one.execution.ordinal, one.attempt) for one in report.executions] == [(3, 2)]
    assert (await harness.job(job)).head.state is JobState.COMPLETED


async def test_dead_letters_are_paged_newest_first_and_purged(harness: StoreHarness) -> None:
    jobs = [await harness.dead(GENERATION, "never") for _ in range(5)]
    first = await harness.dead_letters.page(None, 2)
    second = await harness.dead_letters.page(first[-1].cursor, 2)
    assert [letter.job for letter in first + second] == jobs[::-1][:4]
    assert await harness.dead_letters.purge([jobs[0], JobId(new_uuid())]) == [jobs[0]]
    assert len(await harness.dead_letters.purge(None)) == 4
    assert await harness.dead_letters.requeue(None) == []
    assert (await harness.job(jobs[0])).head.state is JobState.FAILED


async def test_the_list_continues_after_removed_dead_letters(harness: StoreHarness) -> None:
    jobs = [await harness.dead(GENERATION, "never") for _ in range(4)]
    first = await harness.dead_letters.page(None, 2)
    await harness.dead_letters.requeue([letter.job for letter in first])
    second = await harness.dead_letters.page(first[-1].cursor, 2)
    assert [letter.job for letter in second] == [jobs[1], jobs[0]]


async def test_requeueing_all_ends_although_jobs_die_again(harness: StoreHarness) -> None:
    jobs = [await harness.dead(GENERATION, "never") for _ in range(3)]
    hasty = ConcurrentWorker(harness)
    assert sorted(await hasty.requeue(None)) == sorted(jobs)
    assert await harness.dead_letters.count() == 3


class ConcurrentWorker(PostgresDeadLetters):
    """A worker that runs requeued jobs, and fails, before the next step."""

    def __init__(self, harness: StoreHarness) -> None:
        super().__init__(harness.database)
        self._harness = harness
        self._steps = 0

    async def _requeue_batch(self, jobs: Sequence[JobId], by: Actor) -> list[JobId]:
        self._steps += 1
        assert self._steps < 5
        requeued = await super()._requeue_batch(jobs, by)
        for message in await self._harness.messages():
            (claimed,) = await self._harness.claims.claim([message], "w1")
            await self._harness.run(claimed, "never")
        await self._harness.published()
        return requeued


async def test_a_resumed_job_has_no_dead_letter(harness: StoreHarness) -> None:
    job = await harness.dead(GENERATION, "later")
    await harness.jobs.resume(job, USER)
    assert await harness.dead_letters.requeue([job]) == []
    assert len(await harness.published()) == 1


DEADLOCK_ONCE = """
    CREATE SEQUENCE tries;
    CREATE FUNCTION deadlock_once() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF nextval('tries') = 1 THEN
            RAISE EXCEPTION 'deadlock detected' USING ERRCODE = 'deadlock_detected';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER deadlock_once BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION deadlock_once();
"""


async def disable_and_cancel(harness: StoreHarness, user: UserId) -> None:
    await PostgresUsers(harness.database).change(user, disabled=True, jobs=DisabledJobs.CANCEL)


async def delete_user(harness: StoreHarness, user: UserId) -> None:
    await PostgresOperations(harness.database).delete_user(user, USER)


@pytest.mark.parametrize("stop", [disable_and_cancel, delete_user])
async def test_a_command_on_a_user_is_repeated_after_a_deadlock(
    harness: StoreHarness, stop: Callable[[StoreHarness, UserId], Coroutine[Any, Any, None]]
) -> None:
    """The first try changes some of the user's jobs and is rolled back."""
    user = (await PostgresUsers(harness.database).add("deadlock", "free", "bk_deadlock")).id
    jobs = [await harness.submit(user=user) for _ in range(2)]
    await harness.database.execute(DEADLOCK_ONCE)
    await stop(harness, user)
    assert {(await harness.job(job)).head.state for job in jobs} == {JobState.CANCELLED}


async def cancel(harness: StoreHarness, job: JobId) -> None:
    await harness.jobs.cancel(job, USER)


async def resume(harness: StoreHarness, job: JobId) -> None:
    await harness.jobs.resume(job, USER)


async def retry(harness: StoreHarness, job: JobId) -> None:
    await harness.jobs.retry(job, 0, 3, USER)


async def skip(harness: StoreHarness, job: JobId) -> None:
    payer = (await PostgresUsers(harness.database).add("payer", "free", "bk_payer")).id
    await harness.database.execute("UPDATE users SET credit = 9 WHERE id = $1", payer)
    await harness.jobs.skip(job, USER, payer)


@pytest.mark.parametrize(
    ("command", "dead", "event"),
    [
        (cancel, False, "JOB_CANCELLED"),
        (skip, False, "JOB_SKIPPED"),
        (resume, True, "JOB_QUEUED"),
        (retry, True, "JOB_QUEUED"),
    ],
)
async def test_a_command_on_a_job_is_repeated_after_a_deadlock(
    harness: StoreHarness,
    command: Callable[[StoreHarness, JobId], Coroutine[Any, Any, None]],
    dead: bool,
    event: str,
) -> None:
    """Disabling a user locks the user and then its jobs; a command locks the job and then its payer."""
    job = await (harness.dead(MATRIX, "a", "b", "never", "later") if dead else harness.submit())
    await harness.database.execute(DEADLOCK_ONCE)
    await command(harness, job)
    assert (await harness.events(job))[-1] == event


async def cancel_in_bulk(harness: StoreHarness, user: UserId) -> None:
    operations = PostgresOperations(harness.database)
    await operations.add(user, OperationAction.CANCEL, Selection(user, JobSelector(kind="matrix")))
    await operations.step(10)


async def disable(harness: StoreHarness, user: UserId, jobs: DisabledJobs) -> None:
    await PostgresUsers(harness.database).change(user, disabled=True, jobs=jobs)


@pytest.mark.parametrize(
    ("stop", "state", "left"),
    [
        (cancel_in_bulk, JobState.CANCELLED, ExecutionState.CANCELLED),
        (partial(disable, jobs=DisabledJobs.CANCEL), JobState.CANCELLED, ExecutionState.CANCELLED),
        (partial(disable, jobs=DisabledJobs.HOLD), JobState.QUEUED, ExecutionState.PENDING),
    ],
    ids=["bulk cancel", "disable, cancel", "disable, hold"],
)
async def test_executions_that_start_while_their_job_is_stopped_are_stopped(
    harness: StoreHarness,
    stop: Callable[[StoreHarness, UserId], Coroutine[Any, Any, None]],
    state: JobState,
    left: ExecutionState,
) -> None:
    """The worker records the first start, and the command waits for its commit."""
    user = (await PostgresUsers(harness.database).add("busy", "free", "bk_busy")).id
    job = await harness.submit(MATRIX, user=user)
    claimed = await harness.claim()
    async with harness.database.transaction() as other:
        await other.execute(STAYS_IDLE)
        await other.execute("SELECT FROM jobs WHERE id = $1 FOR UPDATE", job)
        started = asyncio.create_task(harness.start(claimed))
        await until(partial(waits_for_a_lock, harness), "the worker waits")
        stopped = asyncio.create_task(stop(harness, user))
        await until(partial(waits_for_a_lock, harness, 2), "the command waits behind it")
    await asyncio.gather(started, stopped)
    assert (await harness.job(job)).head.state is state
    assert {one.newest.state for one in (await harness.executions(job)).values()} == {left}


STAYS_IDLE = "SET LOCAL idle_in_transaction_session_timeout = 0"  # however long the others take


async def waits_for_a_lock(harness: StoreHarness, count: int = 1) -> bool:
    """So many connections do."""
    waiting = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return int(await harness.database.fetchval(f"SELECT count(*) {waiting}")) >= count
