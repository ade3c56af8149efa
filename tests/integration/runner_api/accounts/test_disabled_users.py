"""Disabling a user holds or cancels the user's work; operators find the jobs of a user."""

from typing import Any

import pytest

from beacon_contracts.ids import decode_job_id
from tests.integration.runner_api.harness import GENERATION, MATRIX, ApiHarness, Caller
from tests.integration.runner_store.harness import judged


async def user_id(caller: Caller) -> str:
    return str((await caller.get("/api/v1/me"))["user_id"])


async def disable(admin: Caller, user: str, **more: Any) -> None:
    await admin.post(f"/admin/users/{user}", {"disabled": True, **more})


async def enable(admin: Caller, user: str) -> None:
    await admin.post(f"/admin/users/{user}", {"disabled": False})


async def test_queued_jobs_of_a_disabled_user_are_held(api: ApiHarness, anna: Caller, admin: Caller) -> None:
    user, jobs = await user_id(anna), [await anna.submit(GENERATION) for _ in range(2)]
    await api.publish()
    await disable(admin, user)
    assert await api.claim(10) == []
    held = await admin.job(jobs[0])
    assert (held["status"], held["position"], held["estimated_wait_s"]) == ("queued", None, None)
    assert "held" in (await admin.get(f"/api/v1/jobs/{jobs[0]}/why"))["summary"]
    await enable(admin, user)
    assert [job.id for job in await api.claim(10)] == [decode_job_id(job) for job in jobs]


async def test_a_running_job_of_a_disabled_user_stops_and_continues(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    user, job_id = await user_id(anna), await anna.submit(MATRIX)
    (claimed,) = await api.claim()
    await disable(admin, user)
    late = await api.store.claims.record([judged(claimed, "a", "b", "c", "d")])
    assert late == frozenset(), "the worker has lost the job"
    (cancel,) = await api.store.cancels.take(10)
    assert (cancel.job, len(cancel.executions)) == (claimed.id, 4)
    await enable(admin, user)
    assert await api.store.cancels.take(10) == [], "an old cancel must not stop the next run"
    await api.run("a", "b", "c", "d")
    assert (await anna.job(job_id))["status"] == "completed"


async def test_a_job_in_its_backoff_is_held_and_released(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    user, job_id = await user_id(anna), await anna.submit(GENERATION)
    await api.run("later")
    await disable(admin, user)
    assert (await admin.job(job_id))["status"] == "queued"
    await enable(admin, user)
    await api.run("a cat")
    job = await anna.job(job_id)
    assert (job["status"], job["attempt"]) == ("completed", 2)


async def test_a_paid_skip_of_a_held_job_is_not_refunded(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    user, job_id = await user_id(anna), await anna.submit(GENERATION)
    await admin.post(f"/admin/users/{user}/credit", {"amount": 5})
    await api.publish()
    await anna.post(f"/api/v1/jobs/{job_id}/skip")
    (claimed,) = await api.claim()
    await disable(admin, user)
    await api.store.cancels.settle(decode_job_id(job_id), claimed.fence + 1, [])
    assert (await admin.job(job_id))["price_paid"] == 1


async def test_disabling_with_cancel_ends_all_live_jobs(api: ApiHarness, anna: Caller, admin: Caller) -> None:
    user, jobs = await user_id(anna), [await anna.submit(MATRIX) for _ in range(2)]
    (claimed,) = await api.claim()
    await disable(admin, user, jobs="cancel")
    assert [(await admin.job(job))["status"] for job in jobs] == ["cancelled", "cancelled"]
    assert [cancel.job for cancel in await api.store.cancels.take(10)] == [claimed.id]
    assert await api.claim(10) == []
    await enable(admin, user)
    assert await api.claim(10) == []
    events = (await anna.get(f"/api/v1/jobs/{jobs[1]}/events"))["events"]
    assert events[-1]["type"] == "JOB_CANCELLED"


async def test_held_jobs_of_a_disabled_user_can_be_cancelled_later(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    user, job_id = await user_id(anna), await anna.submit(GENERATION)
    await disable(admin, user)
    await disable(admin, user, jobs="cancel")
    assert (await admin.job(job_id))["status"] == "cancelled"


async def test_a_payment_for_a_cancelled_waiting_job_is_refunded(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    user, job_id = await user_id(anna), await anna.submit(GENERATION)
    await admin.post(f"/admin/users/{user}/credit", {"amount": 5})
    await api.publish()
    await anna.post(f"/api/v1/jobs/{job_id}/skip")
    await disable(admin, user, jobs="cancel")
    assert (await admin.get(f"/admin/users/{user}"))["credit"] == 5


@pytest.mark.parametrize("change", [{"jobs": "cancel"}, {"jobs": "cancel", "disabled": False}])
async def test_jobs_is_refused_without_disabled(
    api: ApiHarness, anna: Caller, admin: Caller, change: dict[str, Any]
) -> None:
    problem = await admin.post(f"/admin/users/{await user_id(anna)}", change, 422)
    assert problem["errors"][0]["field"] == "jobs"


async def test_operators_list_the_jobs_of_one_user(api: ApiHarness, anna: Caller, admin: Caller) -> None:
    mine, bob = await anna.submit(GENERATION), await api.user("bob")
    await bob.submit(GENERATION)
    user = await user_id(anna)
    found = (await admin.get("/api/v1/jobs", user=user))["jobs"]
    assert [(one["job_id"], one["user_id"]) for one in found] == [(mine, user)]
    assert (await admin.job(mine))["user_id"] == user
    await bob.get("/api/v1/jobs", 403, user=user)
    await admin.get("/api/v1/jobs", 422, user="anna")
