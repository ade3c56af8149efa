"""Runs at backends: how to find them again, and their progress."""

from typing import Any

import pytest

from beacon_contracts.accounts import DisabledJobs
from beacon_contracts.events import EventType
from beacon_contracts.ids import JobId, new_uuid
from beacon_contracts.inference import RemoteRun, RunProgress
from beacon_contracts.jobs import ExecutionState
from beacon_runner.domain.execution.plan import ExecutionKey
from beacon_runner.domain.execution.stage_result import (
    ClaimedJob,
    Deferred,
    ExecutionReport,
    Returned,
    RunUpdate,
    StageReport,
)
from beacon_runner.domain.jobs.retention import Removal, RetentionCandidate
from beacon_runner.postgres.accounts.user_jobs import release_jobs, stop_jobs
from tests.integration.runner_store.harness import GENERATION, MATRIX, NOW, USER, StoreHarness, judged

REMOTE = RemoteRun(backend="us-1", run_id="pred-17")
HALF = RunProgress(percent=50.0, message="step 10 of 20", preview="data:image/png;base64,AAAA")


def updates(
    claimed: ClaimedJob, remote: RemoteRun | None, progress: RunProgress | None, **more: Any
) -> StageReport:
    """A report that the first execution runs, with what its backend reports."""
    running = judged(claimed, *["x"] * claimed_size(claimed)).executions[0]
    started = ExecutionReport(
        running.execution, ExecutionState.RUNNING, running.attempt, started_at=NOW.timestamp()
    )
    update = RunUpdate(running.execution, running.attempt, remote, progress)
    return StageReport(claimed, (started,), updates=(update,), **more)


def claimed_size(claimed: ClaimedJob) -> int:
    return 4 if "questions" in claimed.spec else 1


async def progress_events(harness: StoreHarness, job: JobId, after: int = 0) -> list[tuple[int, Any]]:
    events = await harness.queries.events(await harness.job(job), after, 1_000)
    return [(event.seq, event.data) for event in events if event.type is EventType.EXECUTION_PROGRESS]


async def claim_again(harness: StoreHarness, claimed: ClaimedJob) -> ClaimedJob:
    """After the death of the worker: the same message under a new fence."""
    (again,) = await harness.claims.claim([(await harness.job(claimed.id)).message], "w2")
    return again


async def disable(harness: StoreHarness, *, disabled: bool) -> None:
    """Hold the jobs of the user, or release them."""
    async with harness.database.transaction() as connection:
        if disabled:
            await stop_jobs(connection, USER, DisabledJobs.HOLD)
        else:
            await release_jobs(connection, USER)


async def test_the_next_claim_returns_the_run_of_a_dead_worker(harness: StoreHarness) -> None:
    await harness.submit()
    claimed = await harness.claim()
    await harness.claims.record([updates(claimed, REMOTE, None)])
    (recorded,) = (await claim_again(harness, claimed)).recorded_executions
    assert (recorded.state, recorded.remote) == (ExecutionState.RUNNING, REMOTE)


async def test_a_worker_that_lost_its_lease_changes_neither_run_nor_progress(harness: StoreHarness) -> None:
    job = await harness.submit()
    claimed = await harness.claim()
    await harness.claims.record([updates(claimed, REMOTE, None)])
    newer = await claim_again(harness, claimed)
    other = RemoteRun(backend="us-1", run_id="pred-18")
    assert await harness.claims.record([updates(claimed, other, HALF)]) == frozenset()
    (recorded,) = (await claim_again(harness, newer)).recorded_executions
    assert recorded.remote == REMOTE
    assert await progress_events(harness, job) == []


@pytest.mark.parametrize("verdict", [Returned(), Deferred(0.0, "the router is full")])
async def test_a_job_that_returns_to_the_queue_keeps_its_run(harness: StoreHarness, verdict: Any) -> None:
    await harness.submit()
    claimed = await harness.claim()
    await harness.claims.record([updates(claimed, REMOTE, None, verdict=verdict)])
    (recorded,) = (await claim_again(harness, claimed)).recorded_executions
    assert recorded.remote == REMOTE


async def test_a_retry_starts_anew(harness: StoreHarness) -> None:
    job = await harness.submit()
    claimed = await harness.claim()
    await harness.claims.record([updates(claimed, REMOTE, HALF)])
    await harness.run(claimed, "later")
    (recorded,) = (await claim_again(harness, claimed)).recorded_executions
    assert (recorded.attempt, recorded.remote) == (2, None)
    assert await progress_events(harness, job) == []


async def test_the_router_is_given_the_run_of_a_cancelled_job(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    claimed = await harness.claim()
    await harness.claims.record([updates(claimed, REMOTE, HALF)])
    (cancel,) = await harness.cancel(job)
    first = ExecutionKey(0, 0, "q1", "llama", "US")
    assert (cancel.executions[0], cancel.remotes) == (first, {0: REMOTE})


async def test_a_released_user_has_no_run_that_was_to_be_cancelled(harness: StoreHarness) -> None:
    await harness.submit()
    claimed = await harness.claim()
    await harness.claims.record([updates(claimed, REMOTE, None)])
    await disable(harness, disabled=True)
    await disable(harness, disabled=False)
    (recorded,) = (await harness.claim()).recorded_executions
    assert (recorded.state, recorded.remote) == (ExecutionState.PENDING, None)


async def test_a_confirmed_cancel_forgets_the_run(harness: StoreHarness) -> None:
    job = await harness.submit()
    claimed = await harness.claim()
    await harness.claims.record([updates(claimed, REMOTE, None)])
    await disable(harness, disabled=True)
    (cancel,) = await harness.cancels.take(10)
    assert cancel.remotes == {0: REMOTE}
    await harness.cancels.settle(job, cancel.fence, [])
    await disable(harness, disabled=False)
    (recorded,) = (await harness.claim()).recorded_executions
    assert recorded.remote is None


async def test_only_the_newest_progress_of_an_execution_is_kept(harness: StoreHarness) -> None:
    job = await harness.submit(GENERATION)
    claimed = await harness.claim()
    for percent in (10.0, 50.0):
        progress = HALF.model_copy(update={"percent": percent})
        await harness.claims.record([updates(claimed, None, progress)])
    ((seq, data),) = await progress_events(harness, job)
    assert data == {
        "execution_id": data["execution_id"],
        "item": "generation",
        "model": "flux",
        "region": "US",
        "attempt": 1,
        "percent": 50.0,
        "message": HALF.message,
        "preview": HALF.preview,
    }
    assert await progress_events(harness, job, after=seq - 1) == [(seq, data)]
    assert await progress_events(harness, job, after=seq) == []


async def test_progress_events_have_numbers_of_their_own(harness: StoreHarness) -> None:
    job = await harness.submit(MATRIX)
    claimed = await harness.claim()
    whole = judged(claimed, "a", "b", "c", "d").executions
    running = tuple(
        ExecutionReport(one.execution, ExecutionState.RUNNING, 1, started_at=NOW.timestamp()) for one in whole
    )
    both = tuple(RunUpdate(one.execution, 1, None, HALF) for one in whole[:2])
    await harness.claims.record([StageReport(claimed, running, updates=both)])
    await harness.claims.record(
        [StageReport(claimed, (whole[2]._replace(start_reported=True),), earlier=running)]
    )
    events = await harness.queries.events(await harness.job(job), 0, 100)
    assert [event.seq for event in events] == list(range(1, 9))
    assert [event.type.value for event in events][5:] == [
        "EXECUTION_PROGRESS",
        "EXECUTION_PROGRESS",
        "EXECUTION_COMPLETE",
    ]


async def test_progress_is_that_of_a_running_execution(harness: StoreHarness) -> None:
    job = await harness.submit()
    claimed = await harness.claim()
    await harness.claims.record([updates(claimed, None, HALF)])
    assert (await harness.executions(job))[0].progress == HALF
    assert (await harness.queries.sent_executions(job)).percent == 50.0
    (listed,) = await harness.queries.live_jobs([job])
    assert listed.ended == 0.5
    await harness.run(claimed, "a cat")
    assert (await harness.executions(job))[0].progress is None
    ((_, data),) = await progress_events(harness, job)
    assert (data["percent"], data["preview"]) == (50.0, None)


async def test_progress_is_deleted_with_the_other_events(harness: StoreHarness) -> None:
    job = await harness.submit()
    claimed = await harness.claim()
    await harness.claims.record([updates(claimed, None, HALF)])
    await harness.run(claimed, "a cat")
    record = await harness.job(job)
    old = RetentionCandidate(job, record.state, record.generation, 1e9, 1e9)
    assert await harness.retention.remove(Removal.EVENTS, [old]) > 0
    assert await progress_events(harness, job) == []


async def test_reports_without_updates_need_one_statement(harness: StoreHarness) -> None:
    """A job whose backend reports nothing pays for no transaction."""
    await harness.submit(user=new_uuid())
    claimed = await harness.claim()
    counted: list[str] = []
    fetch = harness.database.fetch

    async def counting(statement: str, *values: Any) -> Any:
        counted.append(statement.splitlines()[0])
        return await fetch(statement, *values)

    harness.database.fetch = counting  # type: ignore[method-assign]
    await harness.run(claimed, "a cat")
    assert counted == ["-- results.record"]
