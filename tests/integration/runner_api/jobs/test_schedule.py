"""Jobs that start later, expire, or wait for a limit of their user."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from beacon_config import LiveConfig
from beacon_contracts.ids import decode_job_id
from beacon_lifecycle import ManualClock
from beacon_runner.maintenance.reconciler import Reconciler
from beacon_runner.maintenance.redis_mirror import RedisMirror
from beacon_runner.maintenance.schedule import Expiry, LimitAdmission, ScheduledStarts
from beacon_runner.metrics import LoopMetrics
from beacon_runner.postgres.jobs.operations import PostgresOperations
from beacon_runner.postgres.jobs.pauses import PostgresPauses
from beacon_runner.postgres.jobs.schedule import PostgresSchedule
from beacon_runner.redis_queue import Layout, RedisQueueAdmin
from beacon_telemetry import new_registry
from tests.integration.runner_api.harness import CONFIG, GENERATION, MATRIX, ApiHarness, Caller
from tests.integration.runner_store.harness import judged
from tests.integration.runner_store.statements import HOURS_LATER, MINUTES_LATER


def in_hours(hours: float) -> str:
    """By the clock of the database."""
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


async def later(api: ApiHarness, hours: float) -> None:
    """What the relay does after so many hours; messages that are due enter their lanes."""
    await api.publish()
    await api.store.database.execute(HOURS_LATER, hours)
    for entry in await api.redis.zrange("jobs:retry", 0, -1):
        await api.redis.zincrby("jobs:retry", -hours * 3_600_000, entry)
    await relay(api)


async def relay(api: ApiHarness) -> None:
    store = PostgresSchedule(api.store.database)
    await api.queue.promote_due_retries(100)
    await ScheduledStarts(store).run_once()
    await Expiry(store, RedisQueueAdmin(api.redis, Layout())).run_once()
    await LimitAdmission(store, LiveConfig(CONFIG), lambda: None).run_once()


async def types(caller: Caller, job_id: str) -> list[str]:
    found = await caller.get(f"/api/v1/jobs/{job_id}/events")
    return [event["type"] for event in found["events"]]


async def test_a_scheduled_job_starts_at_its_time(api: ApiHarness, anna: Caller) -> None:
    accepted = await anna.post("/api/v1/jobs", GENERATION | {"not_before": in_hours(2)}, 202)
    job_id = accepted["job_id"]
    assert (accepted["status"], accepted["position"]) == ("scheduled", None)
    await later(api, 1)
    assert await api.claim() == []
    job = await anna.job(job_id)
    assert (job["status"], job["position"], job["finished_at"]) == ("scheduled", None, None)
    assert job["estimated_wait_s"] is not None
    assert "scheduled to start" in (await anna.get(f"/api/v1/jobs/{job_id}/why"))["summary"]
    assert (await anna.get("/api/v1/jobs", status="scheduled"))["jobs"][0]["job_id"] == job_id

    await later(api, 1)
    job = await anna.job(job_id)
    assert (job["status"], job["position"]) == ("queued", 1)
    await api.run("a cat")
    assert (await anna.job(job_id))["status"] == "completed"
    assert (await types(anna, job_id))[:2] == ["JOB_SCHEDULED", "JOB_QUEUED"]


async def test_a_job_is_claimed_before_its_start_is_recorded(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(GENERATION | {"not_before": in_hours(1)})
    await api.publish()
    await api.store.database.execute(HOURS_LATER, 1)
    await api.redis.zadd("jobs:retry", {(await api.redis.zrange("jobs:retry", 0, 0))[0]: 0})
    await api.queue.promote_due_retries(100)
    (claimed,) = await api.claim()
    await relay(api)
    await api.store.run(claimed, "a cat")
    assert (await anna.job(job_id))["status"] == "completed"


async def test_scheduled_jobs_survive_an_emptied_redis(api: ApiHarness, anna: Caller) -> None:
    jobs = [await anna.submit(GENERATION | {"not_before": in_hours(1)}) for _ in range(3)]
    waits = [await anna.submit(MATRIX | {"on_limit": "wait"}) for _ in range(8)]
    await api.publish()
    await api.redis.flushdb()
    admin, live = RedisQueueAdmin(api.redis, Layout()), api.store.live
    mirror = RedisMirror(live, PostgresPauses(api.store.database), admin)
    reconciler = Reconciler(live, api.queue, mirror, LoopMetrics(new_registry()), ManualClock())
    while (await reconciler.run_once()).more:
        pass
    await api.publish()
    assert len(await api.redis.zrange("jobs:retry", 0, -1)) == 3
    assert len(await api.claim(20)) == 7, "the last one waits for the limit of ten"
    await later(api, 1)
    assert [job.id for job in await api.claim(10)] == [decode_job_id(job) for job in jobs]
    assert (await anna.job(waits[-1]))["status"] == "scheduled"


@pytest.mark.parametrize("command", ["cancel", "resume"])
async def test_a_scheduled_job_is_cancelled_or_starts_now(
    api: ApiHarness, anna: Caller, command: str
) -> None:
    job_id = await anna.submit(GENERATION | {"not_before": in_hours(1)})
    await api.publish()
    status = 200 if command == "cancel" else 202
    await anna.post(f"/api/v1/jobs/{job_id}/{command}", None, status)
    if command == "resume":
        await api.run("a cat")
    await later(api, 2)
    assert await api.claim() == [], "the message of the schedule is void"
    assert (await anna.job(job_id))["status"] == ("cancelled" if command == "cancel" else "completed")


async def test_a_job_that_waits_expires_and_a_skip_is_refunded(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    user = (await anna.get("/api/v1/me"))["user_id"]
    await admin.post(f"/admin/users/{user}/credit", {"amount": 5})
    job_id = await anna.submit(GENERATION | {"expires_at": in_hours(1)})
    await api.publish()
    await anna.post(f"/api/v1/jobs/{job_id}/skip")
    assert (await anna.get("/api/v1/me"))["credit"] == 4
    await later(api, 1)
    job = await anna.job(job_id)
    assert (job["status"], job["progress"]["cancelled"]) == ("expired", 1)
    assert (await types(anna, job_id))[-1] == "JOB_EXPIRED"
    assert await api.claim() == []
    assert (await admin.get("/admin/runtime/stats"))["main"] == 0, "its message is removed"
    assert (await admin.get(f"/admin/users/{user}"))["credit"] == 5


async def test_a_running_job_expires_and_is_resumed(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(MATRIX | {"expires_at": in_hours(1)})
    (claimed,) = await api.claim()
    await later(api, 1)
    assert (await anna.job(job_id))["status"] == "expired"
    assert await api.store.claims.record([judged(claimed, "a", "b", "c", "d")]) == frozenset()
    (cancel,) = await api.store.cancels.take(10)
    assert (cancel.job, len(cancel.executions)) == (claimed.id, 4)
    await api.store.cancels.settle(claimed.id, cancel.fence, [])
    resumed = await anna.post(f"/api/v1/jobs/{job_id}/resume", None, 202)
    assert (resumed["status"], resumed["expires_at"]) == ("queued", None)
    await relay(api)
    await api.run("a", "b", "c", "d")
    assert (await anna.job(job_id))["status"] == "completed"


async def test_a_job_that_ended_does_not_expire(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(GENERATION | {"expires_at": in_hours(1)})
    await api.run("a cat")
    await later(api, 1)
    assert (await anna.job(job_id))["status"] == "completed"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"not_before": "2020-01-01T00:00:00Z"}, "not_before"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"not_before": "2031-01-01T00:00:00Z", "expires_at": "2030-01-01T00:00:00Z"}, "expires_at"),
        ({"not_before": "2031-01-01T00:00:00"}, "not_before"),
        ({"not_before": "tomorrow"}, "not_before"),
        ({"on_limit": "hope"}, "on_limit"),
    ],
)
async def test_invalid_schedules_are_refused(anna: Caller, fields: dict[str, Any], field: str) -> None:
    problem = await anna.post("/api/v1/jobs", GENERATION | fields, 422)
    assert problem["errors"][0]["field"].endswith(field)
    problem = await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION, GENERATION | fields]}, 422)
    assert field in problem["errors"][0]["field"]
    assert (await anna.get("/api/v1/jobs"))["jobs"] == []


@pytest.mark.parametrize("batch", [False, True])
async def test_a_repeated_submission_is_answered_after_its_times(
    api: ApiHarness, anna: Caller, *, batch: bool
) -> None:
    """A client that got no response repeats the request when the job has started, or even expired."""
    start = api.clock.wall() + timedelta(seconds=20)
    end = start + timedelta(seconds=10)
    job = GENERATION | {"not_before": start.isoformat(), "expires_at": end.isoformat()}
    path, body = ("/api/v1/jobs/batch", {"jobs": [job, GENERATION]}) if batch else ("/api/v1/jobs", job)
    first = await anna.post(path, body, 202, **{"Idempotency-Key": "late"})
    await api.clock.advance(60)
    again = await anna.post(path, body, 200, **{"Idempotency-Key": "late"})
    ids = [[one["job_id"] for one in reply.get("jobs", [reply])] for reply in (first, again)]
    assert ids[0] == ids[1]
    await anna.post(path, body, 422, **{"Idempotency-Key": "new"})
    other = {"jobs": [job, job]} if batch else job | {"prompt": "a dog"}
    problem = await anna.post(path, other, 409, **{"Idempotency-Key": "late"})
    assert problem["code"] == "idempotency_key_reused"


async def test_jobs_wait_for_a_limit_and_start_in_their_order(api: ApiHarness) -> None:
    anna = await api.user(tier="free")  # two pending jobs, three an hour
    batch = {"jobs": [GENERATION | {"on_limit": "wait"}] * 5}
    accepted = (await anna.post("/api/v1/jobs/batch", batch, 202))["jobs"]
    assert [one["status"] for one in accepted] == ["queued", "queued", "scheduled", "scheduled", "scheduled"]
    assert "limit" in accepted[-1]["no_estimate_reason"]
    jobs = [one["job_id"] for one in accepted]
    assert (await anna.post("/api/v1/jobs", GENERATION, 429))["code"] == "pending_jobs_limit"
    assert (await anna.post(f"/api/v1/jobs/{jobs[2]}/resume", None, 409))["code"] == "wrong_state"
    assert (await anna.get("/api/v1/me"))["limits"]["pending_jobs"]["used"] == 2

    await anna.post(f"/api/v1/jobs/{jobs[2]}/cancel")
    await api.run("a cat")
    await relay(api)
    assert await states(anna, jobs) == ["completed", "queued", "cancelled", "queued", "scheduled"]
    await api.run("a cat")
    await api.run("a cat")
    await relay(api)
    assert await states(anna, jobs[3:]) == ["completed", "scheduled"], "three have started in this hour"
    assert (await types(anna, jobs[3]))[:2] == ["JOB_SCHEDULED", "JOB_QUEUED"]


@pytest.mark.parametrize("together", [False, True])
async def test_a_resumed_job_waits_for_its_limit_again(api: ApiHarness, together: bool) -> None:
    """Otherwise the limits would end with the first expiry."""
    anna = await api.user(tier="free")  # two pending jobs
    batch = {"jobs": [GENERATION | {"on_limit": "wait", "expires_at": in_hours(0.5)}] * 5}
    jobs = [one["job_id"] for one in (await anna.post("/api/v1/jobs/batch", batch, 202))["jobs"]]
    await later(api, 0.6)
    assert await states(anna, jobs) == ["expired"] * 5
    if together:
        await anna.post("/api/v1/jobs/bulk", {"action": "resume", "job_ids": jobs}, 202)
        await PostgresOperations(api.store.database).step(100)
    else:
        for job_id in jobs:
            await anna.post(f"/api/v1/jobs/{job_id}/resume", status=202)
    assert await states(anna, jobs) == ["queued", "queued", "scheduled", "scheduled", "scheduled"]
    assert (await types(anna, jobs[4]))[-2:] == ["JOB_EXPIRED", "JOB_SCHEDULED"]
    assert (await anna.get("/api/v1/me"))["limits"]["pending_jobs"]["used"] == 2
    await relay(api)
    assert await states(anna, jobs[2:]) == ["scheduled"] * 3
    await api.run("a cat")
    await relay(api)
    assert await states(anna, jobs) == ["completed", "queued", "queued", "scheduled", "scheduled"]


async def test_an_admission_counts_for_the_hour_in_which_it_was(api: ApiHarness) -> None:
    """Jobs that were submitted long ago would otherwise all start at once."""
    anna = await api.user(tier="free")
    batch = {"jobs": [GENERATION | {"on_limit": "wait"}] * 9}
    await anna.post("/api/v1/jobs/batch", batch, 202)
    assert await run_all(api) == 3
    await api.store.database.execute(MINUTES_LATER, 61)
    assert await run_all(api) == 3
    await api.store.database.execute(MINUTES_LATER, 50)
    assert await run_all(api) == 0
    await api.store.database.execute(MINUTES_LATER, 11)
    assert await run_all(api) == 3


async def run_all(api: ApiHarness) -> int:
    """Run and admit jobs until none starts any more; how many ran."""
    ran = 0
    await relay(api)
    while claimed := await api.claim(10):
        for one in claimed:
            await api.store.run(one, "a cat")
        ran += len(claimed)
        await relay(api)
    return ran


async def states(caller: Caller, jobs: list[str]) -> list[str]:
    return [(await caller.job(job))["status"] for job in jobs]


async def test_one_refused_job_refuses_the_batch(api: ApiHarness) -> None:
    anna = await api.user(tier="free")
    batch = {"jobs": [GENERATION | {"on_limit": "wait"}] * 2 + [GENERATION]}
    await anna.post("/api/v1/jobs/batch", batch, 429)
    assert (await anna.get("/api/v1/jobs"))["jobs"] == []


async def test_schedules_of_a_disabled_user_continue_when_enabled(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    user = (await anna.get("/api/v1/me"))["user_id"]
    now, then = [await anna.submit(GENERATION | {"not_before": in_hours(hours)}) for hours in (1, 3)]
    await api.publish()
    await admin.post(f"/admin/users/{user}", {"disabled": True})
    await later(api, 1)
    assert await api.claim(10) == []
    await admin.post(f"/admin/users/{user}", {"disabled": False})
    assert [job.id for job in await api.claim(10)] == [decode_job_id(now)]
    await later(api, 2)
    assert [job.id for job in await api.claim(10)] == [decode_job_id(then)]
