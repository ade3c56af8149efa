"""Stored cancels that no router has confirmed when the job is stopped again or goes on."""

from beacon_contracts.accounts import DisabledJobs
from beacon_contracts.ids import JobId
from beacon_contracts.jobs import JobState
from beacon_runner.postgres.accounts.users import PostgresUsers
from beacon_runner.postgres.jobs.schedule import PostgresSchedule
from tests.integration.runner_store.harness import StoreHarness

AGE = "UPDATE router_cancels SET created_at = now() - interval '290 seconds', next_try_at = now()"


async def expired(harness: StoreHarness) -> JobId:
    """A job that expired while a router ran it."""
    job = await harness.submit()
    await harness.start(await harness.claim())
    await harness.database.execute("UPDATE jobs SET expires_at = now() WHERE id = $1", job)
    await PostgresSchedule(harness.database).expire(10)
    assert (await harness.job(job)).head.state is JobState.EXPIRED
    return job


async def test_a_resumed_job_is_not_stopped_by_the_cancel_of_its_expiry(harness: StoreHarness) -> None:
    """A router that does not know the new run would cancel it at its provider."""
    job = await expired(harness)
    await harness.jobs.resume(job, None)
    assert await harness.cancels.take(10) == []


async def test_a_job_that_expired_and_was_resumed_can_be_cancelled(harness: StoreHarness) -> None:
    job = await expired(harness)
    await harness.jobs.resume(job, None)
    (cancel,) = await harness.cancel(job)
    assert (await harness.job(job)).head.state is JobState.CANCELLED
    await harness.database.execute(AGE)
    assert [one.fence for one in await harness.cancels.take(10)] == [cancel.fence]


async def test_a_held_job_can_be_cancelled_before_the_routers_have_answered(harness: StoreHarness) -> None:
    """The cancel counts as new: it is not given up with the old one."""
    users = PostgresUsers(harness.database)
    user = (await users.add("held", "free", "bk_held")).id
    job = await harness.submit(user=user)
    await harness.start(await harness.claim())
    await users.change(user, disabled=True, jobs=DisabledJobs.HOLD)
    await harness.database.execute(AGE)
    await harness.cancel(job)
    assert (await harness.job(job)).head.state is JobState.CANCELLED
    await harness.database.execute("UPDATE router_cancels SET next_try_at = now()")
    (cancel,) = await harness.cancels.take(10)
    assert cancel.age_s < 200
