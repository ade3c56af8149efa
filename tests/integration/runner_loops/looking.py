"""What the tests of workers look at, and how they bring a retry forward."""

from beacon_contracts.ids import JobId
from beacon_contracts.jobs import JobState
from beacon_runner.maintenance.retries import RetryHandler
from tests.integration.runner_loops.bed import LoopBed


async def make_due(bed: LoopBed) -> None:
    """Bring the job's retry forward to now."""
    due = "UPDATE outbox SET not_before = now() - interval '1 second' WHERE topic = 'jobs:retry'"
    await bed.database.execute(due)
    await bed.publish()
    await RetryHandler(bed.queue, bed.transport.metrics).run_once()


async def is_in(bed: LoopBed, job: JobId, state: JobState) -> bool:
    return bool((await bed.job(job))["state"] == state)


async def told_of(bed: LoopBed, job: JobId) -> list[str]:
    rows = await bed.database.fetch("SELECT events FROM job_events WHERE job_id = $1 ORDER BY seq", job)
    return [event["type"] for row in rows for event in row["events"]]
