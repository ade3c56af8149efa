"""Stored cancels that no router has confirmed when the job is stopped again or goes on."""

from dataclasses import dataclass

from beacon_contracts.accounts import DisabledJobs
from beacon_contracts.ids import JobId
from beacon_contracts.inference import InferenceState, InferenceView, RemoteRun, Timing
from beacon_contracts.jobs import JobState
from beacon_runner.maintenance.cancel_notifier import CancelNotifier
from beacon_runner.ports.router import CancelResult
from beacon_runner.postgres.accounts.users import PostgresUsers
from beacon_runner.postgres.jobs.schedule import PostgresSchedule
from tests.integration.runner_store.harness import StoreHarness
from tests.integration.runner_store.test_run_updates import REMOTE, updates

RUN_S = 3.0
AGE = "UPDATE router_cancels SET created_at = now() - interval '290 seconds', next_try_at = now()"


@dataclass(frozen=True)
class RouterOfRun:
    """A router that knows the run of this fence, which it has cancelled."""

    fence: int

    async def cancel(self, request_id: str, region: str | None = None, **_: object) -> CancelResult:
        view = InferenceView(
            request_id=request_id,
            state=InferenceState.CANCELLED,
            model="flux",
            requested_region=region or "US",
            actual_region="US",
            backend="us-1",
            fence=self.fence,
            timing=Timing(queued_s=1.0, load_s=2.0, run_s=RUN_S),
        )
        return CancelResult((view,))


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
    claimed = await harness.claim()
    await harness.claims.record([updates(claimed, REMOTE, None)])
    (cancel,) = await harness.cancels.take(10)
    assert cancel.fence < claimed.fence, "requests under a later fence are not cancelled"
    assert cancel.remotes == {}
    await harness.cancels.settle(job, cancel.fence, [])
    remote = await harness.database.fetchval("SELECT remote FROM executions WHERE job_id = $1", job)
    assert RemoteRun.model_validate(remote) == REMOTE


async def test_the_cancelled_run_of_a_resumed_job_is_counted_when_a_router_reports_it(
    harness: StoreHarness,
) -> None:
    job = await expired(harness)
    await harness.jobs.resume(job, None)
    await harness.start(await harness.claim())
    await CancelNotifier(harness.cancels, RouterOfRun(fence=1)).run_once()
    assert await harness.database.fetchval("SELECT sum(run_s) FROM usage_records") == RUN_S
    assert (await harness.job(job)).head.state is JobState.PROCESSING


async def test_a_job_that_expired_and_was_resumed_can_be_cancelled(harness: StoreHarness) -> None:
    job = await expired(harness)
    await harness.jobs.resume(job, None)
    claimed = await harness.claim()
    (cancel,) = await harness.cancel(job)
    assert (await harness.job(job)).head.state is JobState.CANCELLED
    await harness.database.execute(AGE)
    assert cancel.fence == claimed.fence + 1
    assert sorted(one.fence for one in await harness.cancels.take(10)) == [claimed.fence - 1, cancel.fence]


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
