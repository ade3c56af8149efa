"""Estimated waits of the whole system compared with the actual ones."""

from typing import Any

from tests.acceptance.tiers.users import UserFactory, UserSession
from tests.fixtures.stack import RunningStack
from tests.fixtures.waiting import until

GENERATION = {"kind": "generation", "model": "flux", "prompt": "cat", "region": "US", "failover": "pinned"}
JOBS = 12


async def submit(user: UserSession, **more: Any) -> Any:
    answer = await user.request("POST", "/api/v1/jobs", GENERATION | more)
    assert answer.status_code == 202, answer.text
    return answer.json()


async def test_estimates_behind_an_exclusive_model_are_within_a_factor_of_two(users: UserFactory) -> None:
    user = await users.new("creator")
    for _ in range(8):  # measures the run time
        await user.done((await submit(user))["job_id"])
    accepted = [await submit(user) for _ in range(JOBS)]
    done = [await user.done(one["job_id"]) for one in accepted]
    waits = [job["executions"][0]["timing"]["queued_s"] for job in done]
    pairs = [(one["estimated_wait_s"], wait) for one, wait in zip(accepted, waits, strict=True) if wait > 1.0]
    good = [pair for pair in pairs if 0.5 <= pair[0] / pair[1] <= 2.0]
    assert len(good) >= 0.8 * len(pairs), f"estimated and actual: {pairs}"


async def test_submissions_behind_a_held_run_have_growing_positions(users: UserFactory) -> None:
    user = await users.new("creator")
    await users.hold("flux")
    accepted = [await submit(user) for _ in range(8)]
    positions = [one["position"] for one in accepted]
    assert len(set(positions)) >= 4
    assert positions[-1] >= 4
    await users.release()
    for one in accepted:
        await user.done(one["job_id"])


async def test_the_estimate_of_a_new_user_ignores_a_bulk_submission_of_another(users: UserFactory) -> None:
    bulk, other = await users.new("creator"), await users.new("creator")
    await users.hold("sdxl")
    waiting = [await submit(bulk, model="sdxl") for _ in range(10)]
    own = await submit(other, model="music")
    assert own["estimated_wait_s"] < 5
    await users.release()
    for one in waiting:
        await bulk.done(one["job_id"])


async def test_there_is_no_estimate_while_a_class_is_paused(users: UserFactory) -> None:
    user = await users.new("creator")
    async with users.paused("high"):
        job_id = (await submit(user))["job_id"]
        job = await user.when(job_id, no_estimate_reason="class high is paused")
        assert job["estimated_wait_s"] is None
    await user.done(job_id)


async def test_there_is_no_estimate_while_no_backend_can_run(users: UserFactory, stack: RunningStack) -> None:
    user, jobs = await users.new("admin"), []
    stack.kill("gpusim-us")
    try:

        async def is_down() -> bool:
            regions = (await user.get("/api/v1/regions"))["regions"]
            return not any(one["state"]["healthy"] for one in regions if one["name"] == "US" and one["state"])

        await until(is_down, "the breakers of US are open")

        async def refused() -> bool:
            accepted = await submit(user)
            jobs.append(accepted["job_id"])
            reason = accepted["no_estimate_reason"] or ""
            return accepted["estimated_wait_s"] is None and "no backend can run flux in US" in reason

        await until(refused, "a submission is answered without an estimate")
    finally:
        for job in jobs:
            await user.request("POST", f"/api/v1/jobs/{job}/cancel")
        stack.start("gpusim-us")
