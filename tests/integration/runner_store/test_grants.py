"""A new job is stored with a fence for whoever is handed it; whatever comes first takes it away (ADR 13)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from beacon_contracts.tiers import JobClass
from beacon_lifecycle import SystemClock
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.grants import grant_of
from beacon_runner.domain.messages import Message
from beacon_runner.domain.quotas import Allowance
from beacon_runner.domain.stage_result import ClaimedJob
from beacon_runner.postgres.credit import Credit
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.intake import Intake
from beacon_runner.postgres.submissions import NewJob, Submissions
from beacon_runner.postgres.users import Users
from tests.integration.runner_store.bed import Bed, judged, new_job

FORGET_CONFIRMATION = "UPDATE jobs SET state = 'queued', deliveries = 0, worker = NULL, started_at = NULL"
END_ERA = "TRUNCATE current_era"


@dataclass
class Hearing:
    """Carries small groups, and keeps the fence of the last one."""

    fence: int = 0
    carried: list[NewJob] = field(default_factory=list)
    carries: int = 20

    def __call__(self, jobs: Sequence[NewJob], numbers: Sequence[int], fence: int = 0) -> None:
        assert len(numbers) == len(jobs)
        self.carried += jobs
        self.fence = fence


def as_granted(job: NewJob, fence: int) -> tuple[Message, ClaimedJob]:
    one = job.admitted
    claimed = ClaimedJob(
        job.id, job.user, fence, 1, 0, one.stages, 1, one.kind, one.spec, {}, job.tier, front=False
    )
    return Message(job.id, 1, 0, 1, job.job_class, job.lane, grant=grant_of(claimed)), claimed


async def begin_era(bed: Bed) -> None:
    """By a claim of another job, as in any system that has worked before."""
    await bed.submit()
    await bed.claim()


async def granted_job(bed: Bed, **more: Any) -> tuple[Message, ClaimedJob]:
    await begin_era(bed)
    hearing, job = Hearing(), new_job(**more)
    await Submissions(bed.database, hearing).submit([job])
    assert hearing.fence > 0
    return as_granted(job, hearing.fence)


async def row_of(bed: Bed, job: ClaimedJob) -> Any:
    return await bed.database.fetchrow("SELECT * FROM jobs WHERE id = $1", job.id)


async def test_a_confirmed_grant_is_a_claim(bed: Bed) -> None:
    message, job = await granted_job(bed)
    assert (await bed.job(job.id)).head.state == "queued"
    assert await bed.claims.confirm(message, job, "w1")
    row = await row_of(bed, job)
    assert (row["state"], row["worker"], row["deliveries"], row["lease"]) == (
        "processing",
        "w1",
        1,
        job.fence,
    )
    assert row["started_at"] is not None
    assert await bed.claims.record([judged(job, "good")]) == {job.id}
    assert (await bed.job(job.id)).head.state == "completed"


async def test_nothing_is_recorded_on_a_grant_that_was_not_confirmed(bed: Bed) -> None:
    _, job = await granted_job(bed)
    assert await bed.claims.record([judged(job, "early")]) == frozenset()
    assert (await bed.job(job.id)).head.state == "queued"


async def test_a_grant_is_confirmed_once(bed: Bed) -> None:
    message, job = await granted_job(bed)
    assert await bed.claims.confirm(message, job, "w1")
    assert not await bed.claims.confirm(message, job, "w2")
    assert (await row_of(bed, job))["worker"] == "w1"


async def test_a_claim_takes_a_grant_away_and_looks_for_what_it_began(bed: Bed) -> None:
    """Its worker froze or died, or was never handed the message."""
    message, job = await granted_job(bed)
    (claimed,) = await bed.claims.claim([message], "w2")
    assert claimed.fence > job.fence
    assert claimed.may_be_running
    assert not claimed.claimed_before
    assert not await bed.claims.confirm(message, job, "w1")
    assert await bed.claims.record([judged(job, "late")]) == frozenset()
    assert await bed.claims.record([judged(claimed, "good")]) == {job.id}


async def test_a_claim_takes_a_confirmed_job_away_too(bed: Bed) -> None:
    message, job = await granted_job(bed)
    assert await bed.claims.confirm(message, job, "w1")
    (claimed,) = await bed.claims.claim([message], "w2")
    assert claimed.claimed_before
    assert await bed.claims.record([judged(job, "late")]) == frozenset()


async def test_a_cancel_takes_a_grant_away_and_tells_the_routers(bed: Bed) -> None:
    """They may have been asked for it already, under the granted fence."""
    message, job = await granted_job(bed)
    cancelled = await bed.control.cancel(job.id, None)
    assert cancelled.at_router is not None
    assert cancelled.at_router.fence == job.fence + 1
    assert [place.ordinal for place in cancelled.at_router.places] == [0]
    assert not await bed.claims.confirm(message, job, "w1")
    assert (await bed.job(job.id)).head.state == "cancelled"


async def test_who_pays_for_a_job_takes_the_grant_away(bed: Bed) -> None:
    """The claim that follows knows that it was paid for, which decides on a refund."""
    users = Users(bed.database)
    user, _ = await users.ensure("anna", new_job().tier)
    await users.change_credit(user.id, 5, "gift")
    message, job = await granted_job(bed, user=user.id)
    await Credit(bed.database, lambda _: 1, JobClass.HIGH).skip(job.id, user.id, user.id)
    assert not await bed.claims.confirm(message, job, "w1")
    (claimed,) = await bed.claims.claim([message], "w1")
    assert claimed.front


async def test_a_grant_ends_with_its_era(bed: Bed) -> None:
    """A crash may have forgotten the claim that took it away."""
    message, job = await granted_job(bed)
    await bed.database.execute(END_ERA)
    assert not await bed.claims.confirm(message, job, "w1")
    (claimed,) = await bed.claims.claim([message], "w2")
    assert claimed.fence > job.fence
    assert claimed.may_be_running
    assert not await bed.claims.confirm(message, job, "w1")


async def test_a_confirmation_that_a_crash_forgot_records_nothing(bed: Bed) -> None:
    message, job = await granted_job(bed)
    assert await bed.claims.confirm(message, job, "w1")
    await bed.database.execute(FORGET_CONFIRMATION)
    await bed.database.execute(END_ERA)
    assert await bed.claims.record([judged(job, "late")]) == frozenset()
    (claimed,) = await bed.claims.claim([message], "w2")
    assert claimed.may_be_running
    assert await bed.claims.record([judged(claimed, "good")]) == {job.id}


async def test_a_job_that_a_crash_forgot_is_nobodys(bed: Bed) -> None:
    message, job = await granted_job(bed)
    await bed.database.execute("DELETE FROM jobs WHERE id = $1", job.id)
    assert not await bed.claims.confirm(message, job, "w1")


async def test_before_the_first_claim_of_an_era_nothing_is_granted(bed: Bed) -> None:
    await bed.database.execute(END_ERA)
    hearing = Hearing()
    await Submissions(bed.database, hearing).submit([new_job()])
    assert (len(hearing.carried), hearing.fence) == (1, 0)


async def test_jobs_that_come_together_are_granted_to_nobody(bed: Bed) -> None:
    await begin_era(bed)
    hearing = Hearing()
    jobs = [new_job(), new_job()]
    await Submissions(bed.database, hearing).submit(jobs)
    assert (len(hearing.carried), hearing.fence) == (2, 0)
    assert [(await bed.job(job.id)).lease for job in jobs] == [0, 0]


async def test_a_user_with_limits_is_no_slower(bed: Bed) -> None:
    await begin_era(bed)
    hearing = Hearing()
    job = new_job(allowance=Allowance(pending_jobs=5))
    intake = Intake(bed.database, SystemClock(), 1_000_000, hearing)
    try:
        await intake.submit([job])
    finally:
        await intake.close()
    message, claimed = as_granted(job, hearing.fence)
    assert await bed.claims.confirm(message, claimed, "w1")


async def test_a_lane_that_the_queue_chose_is_kept(bed: Bed) -> None:
    message, job = await granted_job(bed, lane="")
    assert await bed.claims.confirm(replace(message, lane="queue_3"), job, "w1")
    assert (await row_of(bed, job))["lane"] == "queue_3"


async def test_a_confirmation_whose_answer_is_lost_is_no_delivery(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, job = await granted_job(bed)
    claims = bed.claims
    with monkeypatch.context() as patched:
        patched.setattr(Database, "fetchval", _then_lost(Database.fetchval))
        with pytest.raises(StoreUnavailableError):
            await claims.confirm(message, job, "w1")
    assert (await row_of(bed, job))["deliveries"] == 1
    await claims.claim([message], "w1")
    assert (await row_of(bed, job))["deliveries"] == 1


def _then_lost(fetchval: Callable[..., Any]) -> Callable[..., Any]:
    async def asked(*arguments: Any) -> Any:
        await fetchval(*arguments)
        raise StoreUnavailableError("the connection ended")

    return asked
