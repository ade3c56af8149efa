"""Retry, cancel and disable on the whole system, checked against the ledger of the simulated GPUs."""

from typing import Any

from tests.acceptance.tiers.users import UserFactory, UserSession
from tests.fixtures.waiting import until

GENERATION = {"kind": "generation", "model": "flux", "prompt": "cat", "region": "US", "failover": "pinned"}


async def on_gpu(users: UserFactory, count: int) -> None:
    async def so() -> bool:
        calls = await users.calls(model="flux")
        return sum(call["outcome"] is None for call in calls) == count

    await until(so, f"{count} runs of flux are on the GPUs of US")


async def change(users: UserFactory, user: UserSession, **body: Any) -> None:
    (await users.operator.request("POST", f"/admin/users/{user.user_id}", body)).raise_for_status()


async def test_retry_question_runs_during_the_backoff_of_a_minute(users: UserFactory) -> None:
    user = await users.new("creator")
    await users.fault(kind="error", status=503, model="flux", next=1)
    job_id = await user.submit(GENERATION)
    job = await user.when(job_id, status="retrying")
    execution = job["executions"][0]["id"]
    answer = await user.request("POST", f"/api/v1/executions/{execution}/retry-question")
    assert answer.status_code == 202
    done = await user.done(job_id)
    assert done["status"] == "completed"
    assert [one["state"] for one in (await user.get(f"/api/v1/executions/{execution}"))["attempts"]] == [
        "failed",
        "completed",
    ]


async def test_a_cancelled_run_reports_its_time_on_the_gpu(users: UserFactory) -> None:
    user = await users.new("creator")
    await users.hold("flux")
    job_id = await user.submit(GENERATION)
    await user.runs(job_id)
    execution = (await user.job(job_id))["executions"][0]["id"]
    await user.request("POST", f"/api/v1/jobs/{job_id}/cancel")

    async def recorded() -> Any:
        found = await user.get(f"/api/v1/executions/{execution}")
        return found if found["timing"] is not None else None

    found = await until(recorded, "the cancelled run is recorded")
    (attempt,) = found["attempts"]
    assert (attempt["state"], attempt["region"]) == ("cancelled", "US")
    assert attempt["backend"] is not None
    assert found["timing"]["run_s"] + found["timing"]["load_s"] > 0


async def test_nothing_of_a_disabled_user_runs_until_enabled(users: UserFactory) -> None:
    user = await users.new("creator")
    await users.hold("flux")
    jobs = [await user.submit(GENERATION) for _ in range(3)]
    await user.runs(jobs[0])
    await change(users, user, disabled=True)
    await on_gpu(users, 0)
    await users.release()
    states = {(await users.operator.job(job))["status"] for job in jobs}
    assert states == {"queued"}
    assert "held" in (await users.operator.get(f"/api/v1/jobs/{jobs[0]}/why"))["summary"]
    await change(users, user, disabled=False)
    assert {(await user.done(job))["status"] for job in jobs} == {"completed"}


async def test_an_operator_finds_and_cancels_the_work_of_a_user(users: UserFactory) -> None:
    user = await users.new("creator")
    await users.hold("flux")
    jobs = [await user.submit(GENERATION) for _ in range(3)]
    await user.runs(jobs[0])
    listed = await users.operator.get(f"/api/v1/jobs?user={user.user_id}")
    assert {one["job_id"] for one in listed["jobs"]} == set(jobs)
    await change(users, user, disabled=True, jobs="cancel")
    await on_gpu(users, 0)
    assert {(await users.operator.job(job))["status"] for job in jobs} == {"cancelled"}


async def test_one_exclusive_run_is_processing_and_the_others_are_queued(users: UserFactory) -> None:
    user = await users.new("creator")
    await users.hold("flux")
    await users.hold("sdxl")
    for _ in range(3):
        await user.submit(GENERATION | {"model": "sdxl"})
    jobs = [await user.submit(GENERATION)]
    await user.runs(jobs[0])
    for position in (1, 2, 3):  # jobs of the same moment may reach the router in any order
        jobs.append(await user.submit(GENERATION))
        await user.waits_at_position(jobs[-1], position)
    assert [(await user.job(job))["position"] for job in jobs] == [None, 1, 2, 3], "sdxl is not counted"

    async def public() -> Any:
        listed = (await user.get("/queue-status"))["jobs"]
        states = [one["status"] for one in listed if one["id"] in jobs]
        return states if len(states) == 4 else None

    assert await until(public, "the queue is listed") == ["processing", "queued", "queued", "queued"]
    shown = [await user.job(job) for job in jobs]
    assert [(one["status"], one["executions"][0]["state"]) for one in shown] == [
        ("processing", "running"),
        *[("queued", "queued")] * 3,
    ]
    assert [one["started_at"] is None for one in shown] == [False, True, True, True]
    assert [one["executions"][0]["started_at"] is None for one in shown] == [False, True, True, True]
    reasons = [(await user.get(f"/api/v1/jobs/{job}/why"))["reasons"][0] for job in jobs[1:]]
    assert ["next" in reason for reason in reasons] == [True, False, False]
    assert "behind 2 others, and another run of the exclusive model is in progress" in reasons[2]
