"""Pages of a user's jobs while these change."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import combinations
from typing import Any

import pytest

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import JobState
from beacon_runner.domain.jobs.job_filter import JobFilter
from tests.integration.runner_store.harness import GENERATION, MATRIX, USER, StoreHarness


async def page(
    harness: StoreHarness, *states: JobState, after: JobId | None = None, limit: int = 10
) -> dict[JobId, JobState]:
    found = await harness.queries.page(JobFilter(USER, states), after=after, limit=limit)
    return {head.id: head.state for head in found.jobs}


def change_after_first_statement(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch, change: Callable[[], Awaitable[object]]
) -> None:
    fetch = harness.database.fetch

    async def fetch_and_change(*call: Any) -> Sequence[Any]:
        monkeypatch.undo()
        rows = await fetch(*call)
        await change()
        return rows

    monkeypatch.setattr(harness.database, "fetch", fetch_and_change)


async def test_a_job_that_ends_during_a_read_is_on_the_page(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await harness.submit()
    claimed = await harness.start(await harness.claim())
    change_after_first_statement(harness, monkeypatch, lambda: harness.run(claimed, "a cat"))
    assert await page(harness, JobState.PROCESSING, JobState.COMPLETED) == {job: JobState.PROCESSING}


async def test_a_job_resumed_during_a_read_is_on_the_page(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await harness.dead(GENERATION, "later")
    change_after_first_statement(harness, monkeypatch, lambda: harness.jobs.resume(job, USER))
    assert await page(harness, JobState.QUEUED, JobState.FAILED) == {job: JobState.FAILED}


async def test_jobs_of_any_states_are_listed_newest_first(harness: StoreHarness) -> None:
    jobs: dict[JobId, JobState] = {}
    for _ in range(2):
        jobs[await harness.dead(GENERATION, "never")] = JobState.FAILED
        jobs[await harness.dead(MATRIX, "yes", "never", "yes", "yes")] = JobState.PARTIAL
        cancelled = await harness.submit()
        await harness.jobs.cancel(cancelled, USER)
        await harness.published()
        jobs[cancelled] = JobState.CANCELLED
        jobs[await harness.submit()] = JobState.COMPLETED
        await harness.run(await harness.claim(), "a cat")
        jobs[await harness.submit(MATRIX)] = JobState.RETRYING
        await harness.run(await harness.claim(), "later", "yes", "yes", "yes")
        await harness.published()
        jobs[await harness.submit()] = JobState.PROCESSING
        await harness.start(await harness.claim())
        jobs[await harness.submit()] = JobState.QUEUED
        await harness.published()
    newest = sorted(jobs, reverse=True)
    reached = sorted(set(jobs.values()))
    for count in range(1, len(reached) + 1):
        for states in combinations(reached, count):
            wanted = [(job, jobs[job]) for job in newest if jobs[job] in states]
            assert list((await page(harness, *states, limit=20)).items()) == wanted
            assert list((await page(harness, *states, limit=2)).items()) == wanted[:2]
            rest = await page(harness, *states, after=wanted[1][0], limit=20)
            assert list(rest.items()) == wanted[2:]
