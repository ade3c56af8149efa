"""Assertions of the worker tests."""

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import JobState
from beacon_runner.maintenance.retries import RetryHandler
from beacon_runner.postgres.statements import statements
from tests.integration.runner_loops.harness import LoopHarness


async def make_due(harness: LoopHarness) -> None:
    """Bring the job's retry forward to now."""
    due = "UPDATE outbox SET not_before = now() - interval '1 second' WHERE topic = 'jobs:retry'"
    await harness.database.execute(due)
    await harness.publish()
    await RetryHandler(harness.queue, harness.transport.metrics).run_once()


async def is_in(harness: LoopHarness, job: JobId, state: JobState) -> bool:
    return bool((await harness.job(job))["state"] == state)


async def event_types_of(harness: LoopHarness, job: JobId) -> list[str]:
    rows = await harness.database.fetch(statements("job_queries")["events"], job, 0, 1_000)
    return [event["type"] for row in rows for event in row["events"]]
