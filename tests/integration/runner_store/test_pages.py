"""Pages of a user's jobs, while these go on."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import combinations
from typing import Any

import pytest

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import JobState
from tests.integration.runner_store.bed import GENERATION, MATRIX, USER, Bed


async def page(
    bed: Bed, *states: JobState, after: JobId | None = None, limit: int = 10
) -> dict[JobId, JobState]:
    found = await bed.queries.page(USER, after=after, states=states, kind=None, limit=limit)
    return {head.id: head.state for head in found}


def change_after_first_statement(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, change: Callable[[], Awaitable[object]]
) -> None:
    fetch = bed.database.fetch

    async def fetch_and_change(*call: Any) -> Sequence[Any]:
        monkeypatch.undo()
        rows = await fetch(*call)
        await change()
        return rows

    monkeypatch.setattr(bed.database, "fetch", fetch_and_change)


async def test_a_job_that_ends_while_a_page_is_read_is_on_it_as_it_was(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await bed.submit()
    claimed = await bed.claim()
    change_after_first_statement(bed, monkeypatch, lambda: bed.run(claimed, "a cat"))
    assert await page(bed, JobState.PROCESSING, JobState.COMPLETED) == {job: JobState.PROCESSING}


async def test_a_job_that_is_resumed_while_a_page_is_read_is_on_it_as_it_was(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await bed.dead(GENERATION, "later")
    change_after_first_statement(bed, monkeypatch, lambda: bed.jobs.resume(job, USER))
    assert await page(bed, JobState.QUEUED, JobState.FAILED) == {job: JobState.FAILED}


async def test_any_states_have_their_jobs_newest_first(bed: Bed) -> None:
    jobs: dict[JobId, JobState] = {}
    for _ in range(2):
        jobs[await bed.dead(GENERATION, "never")] = JobState.FAILED
        jobs[await bed.dead(MATRIX, "yes", "never", "yes", "yes")] = JobState.PARTIAL
        cancelled = await bed.submit()
        await bed.jobs.cancel(cancelled, USER)
        await bed.published()
        jobs[cancelled] = JobState.CANCELLED
        jobs[await bed.submit()] = JobState.COMPLETED
        await bed.run(await bed.claim(), "a cat")
        jobs[await bed.submit(MATRIX)] = JobState.RETRYING
        await bed.run(await bed.claim(), "later", "yes", "yes", "yes")
        await bed.published()
        jobs[await bed.submit()] = JobState.PROCESSING
        await bed.claim()
        jobs[await bed.submit()] = JobState.QUEUED
        await bed.published()
    newest = sorted(jobs, reverse=True)
    for count in range(1, len(JobState) + 1):
        for states in combinations(JobState, count):
            wanted = [(job, jobs[job]) for job in newest if jobs[job] in states]
            assert list((await page(bed, *states, limit=20)).items()) == wanted
            assert list((await page(bed, *states, limit=2)).items()) == wanted[:2]
            rest = await page(bed, *states, after=wanted[1][0], limit=20)
            assert list(rest.items()) == wanted[2:]
