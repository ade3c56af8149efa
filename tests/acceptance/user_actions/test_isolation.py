"""Bulk submissions of one user and the jobs of another, checked against the ledger of the simulated GPUs."""

from typing import Any

from tests.acceptance.tiers.users import UserFactory, UserSession
from tests.fixtures.waiting import until

SONG = {"kind": "generation", "model": "music", "prompt": "song", "region": "US", "failover": "pinned"}
CHAT = {"kind": "generation", "model": "mistral-7b", "prompt": "hi", "region": "US", "failover": "pinned"}
BULK, MAX_BEFORE = 500, 3


def matrix(region: str) -> dict[str, Any]:
    questions = [{"id": f"q{number}", "prompt": "Why?"} for number in range(BULK)]
    return {"kind": "matrix", "questions": questions, "models": ["mistral-7b"], "regions": [region]}


async def started(users: UserFactory, model: str) -> list[str]:
    """The jobs of the runs of a model in US, in the order in which they came to the GPUs."""
    calls = sorted(await users.calls(model=model), key=lambda call: call["arrived"])
    return ["job_" + call["request_id"].split("_")[1].split(".")[0] for call in calls]


async def waiting_in_us(users: UserFactory, least: int) -> None:
    async def so() -> bool:
        regions = (await users.operator.get("/api/v1/regions"))["regions"]
        (us,) = [one["state"] for one in regions if one["name"] == "US"]
        return us is not None and us["main"] >= least

    await until(so, f"{least} requests wait in US")


async def at_router(user: UserSession, job_id: str) -> None:
    async def so() -> bool:
        job = await user.job(job_id)
        return job["progress"]["queued"] > 0 and job["position"] is not None

    await until(so, f"{job_id} waits at the router")


async def cancel_all(users: UserFactory, user: UserSession) -> None:
    body = {"disabled": True, "jobs": "cancel"}
    (await users.operator.request("POST", f"/admin/users/{user.user_id}", body)).raise_for_status()


async def starts_before(users: UserFactory, model: str, job_id: str, held: int) -> int:
    """Of the runs that started after `held` ones, those before the first run of the job."""

    async def found() -> list[str] | None:
        jobs = await started(users, model)
        return jobs if job_id in jobs else None

    return (await until(found, f"{job_id} is on a GPU")).index(job_id) - held


async def test_hundreds_of_one_user_in_flight_do_not_delay_another(users: UserFactory) -> None:
    bulk, other = await users.new("admin"), await users.new("admin")
    await users.hold("music")
    before = len(await started(users, "music"))
    (await bulk.request("POST", "/api/v1/jobs/batch", {"jobs": [SONG] * BULK})).raise_for_status()
    await waiting_in_us(users, BULK // 2)
    job_id = await other.submit(SONG)
    await at_router(other, job_id)
    held = before + 4
    for _ in range(MAX_BEFORE + 1):
        await waiting_in_us(users, 1)
        await users.release(1)
    assert await starts_before(users, "music", job_id, held) <= MAX_BEFORE
    await cancel_all(users, bulk)
    await users.release()
    assert (await other.done(job_id))["status"] == "completed"


async def test_a_matrix_does_not_delay_another_user(users: UserFactory) -> None:
    bulk, other = await users.new("admin"), await users.new("admin")
    await users.hold("mistral-7b")
    held = len(await started(users, "mistral-7b")) + 4
    await bulk.submit(matrix("US"))
    await waiting_in_us(users, 20)
    job_id = await other.submit(CHAT)
    await at_router(other, job_id)
    for _ in range(MAX_BEFORE + 1):
        await users.release(1)
    assert await starts_before(users, "mistral-7b", job_id, held) <= MAX_BEFORE
    await cancel_all(users, bulk)
    await users.release()
    assert (await other.done(job_id))["status"] == "completed"
