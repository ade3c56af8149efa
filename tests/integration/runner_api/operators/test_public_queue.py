"""The public routes of the queue: their format, and no private data."""

from typing import Any

from beacon_contracts.ids import decode_job_id, encode_execution_id
from beacon_contracts.router_status import (
    QueueStatus,
    RegionStatus,
    RunningInference,
    SchedulerStatus,
    SchedulerView,
)
from beacon_runner.ports.router import RouterStatus
from beacon_runner.postgres.accounts.credit import PostgresCredit
from tests.integration.runner_api.harness import GENERATION, PIPELINE, ApiHarness, Caller

SECRET = "only the owner may read this"
SONG = {"prompt": SECRET, "model": "music", "duration": 30, "loop": True}


async def fetch(api: ApiHarness, caller: Caller, path: str) -> Any:
    await api.publish()
    await api.clock.advance(2)
    return await caller.get(path)


async def test_generate_is_a_generation(api: ApiHarness) -> None:
    anna = await api.user(tier="premium")
    accepted = await anna.post("/generate", SONG, 202)
    assert (accepted["status"], accepted["tier"], accepted["priority"]) == ("queued", "premium", "medium")
    job = await anna.job(accepted["job_id"])
    assert job["kind"] == "generation"
    assert job["spec"]["input"] == {"prompt": SECRET, "duration": 30, "loop": True}


async def test_generate_is_idempotent_and_validated(api: ApiHarness) -> None:
    anna = await api.user(tier="free")
    key = {"idempotency-key": "song"}
    first = await anna.post("/generate", SONG, 202, **key)
    assert (await anna.post("/generate", SONG, 200, **key))["job_id"] == first["job_id"]
    assert (await anna.post("/generate", SONG | {"duration": 31}, 422))["code"] == "duration_too_long"
    assert (await anna.post("/generate", SONG | {"model": "gpt-9"}, 422))["errors"][0]["field"] == "model"
    assert (await anna.post("/generate", {"model": "music"}, 422))["errors"][0]["field"] == "prompt"
    await anna.post("/generate", SONG, 202)
    assert (await anna.post("/generate", SONG, 429))["code"] == "pending_jobs_limit"
    await api.caller(None).post("/generate", SONG, 401)


async def test_the_public_status_shows_no_private_data(api: ApiHarness) -> None:
    anna = await api.user(tier="premium")
    first = (await anna.post("/generate", SONG, 202))["job_id"]
    second = (await anna.post("/generate", SONG, 202))["job_id"]
    await api.start()
    public = await fetch(api, api.caller(None), "/queue-status")
    assert public == {
        "queue_length": 2,
        "current_job": first,
        "jobs": [
            {"id": first, "status": "processing", "model": "music", "position": 1},
            {"id": second, "status": "queued", "model": "music", "position": 2},
        ],
    }


async def test_processing_means_running_on_a_gpu(api: ApiHarness) -> None:
    anna = await api.user(tier="premium")
    jobs = [(await anna.post("/generate", SONG, 202))["job_id"] for _ in range(3)]
    _, started, _ = await api.claim(3)
    await api.store.start(started)
    runs = encode_execution_id(decode_job_id(jobs[1]), 0, 0)
    api.router.statuses = [RouterStatus("http://router", 0, queues_with_runs(runs, "chat-1"))]
    public = await fetch(api, api.caller(None), "/queue-status")
    assert [(job["id"], job["status"], job["position"]) for job in public["jobs"]] == [
        (jobs[1], "processing", 1),
        (jobs[0], "queued", 2),
        (jobs[2], "queued", 3),
    ]
    assert public["current_job"] == jobs[1]
    counts = (await api.caller(None).get("/status"))["queue"]
    assert counts == {"running": 1, "waiting": 2, "retrying": 0}


def queues_with_runs(*request_ids: str) -> QueueStatus:
    runs = [
        RunningInference(request_id=one, model="music", backend="us-1", tier="free", running_s=1.0)
        for one in request_ids
    ]
    region = RegionStatus(
        region="US",
        concurrency=4,
        main=2,
        front=0,
        retry=0,
        running=runs,
        completed=0,
        failed=0,
        cancelled=0,
        slots=4,
        busy=len(runs),
        healthy=True,
    )
    return QueueStatus(
        regions={"US": region}, global_retry=0, backing_off=0, waiting=2, running=len(runs), held_bytes=0
    )


async def test_the_status_of_an_empty_queue(api: ApiHarness) -> None:
    anonymous = api.caller(None)
    assert await fetch(api, anonymous, "/queue-status") == {
        "queue_length": 0,
        "current_job": None,
        "jobs": [],
    }


async def test_the_queue_names_only_jobs_of_the_key(api: ApiHarness) -> None:
    anna, bert = await api.user("anna", "premium"), await api.user("bert", "free")
    await anna.submit(GENERATION | {"name": SECRET, "duration": 10})
    await api.start()
    await bert.submit(PIPELINE | {"name": "mine"})
    await fetch(api, bert, "/api/queue")
    queue = await fetch(api, bert, "/api/queue")
    assert queue["total"] == 2
    theirs, mine = queue["jobs"]
    assert SECRET not in str(queue)
    assert theirs["status"] == "processing"
    assert (theirs["model"], theirs["duration"], theirs["priority"]) == ("flux", 10, "premium")
    assert (theirs["progress"], theirs["progress_pct"], theirs["position"]) == ("Generating... 0%", 0, 1)
    assert (mine["mine"], mine["name"], mine["model"]) == (True, "mine", "prompt_enhancer")
    assert mine["position"] == 2


async def test_the_queue_has_the_documented_fields_without_a_key(api: ApiHarness) -> None:
    anna = await api.user("anna", "premium")
    await anna.submit(GENERATION | {"name": SECRET, "duration": 10})
    await api.start()
    queue = await fetch(api, api.caller(None), "/api/queue")
    (job,) = queue["jobs"]
    assert set(queue) == {"jobs", "total"}
    assert job == {
        "id": job["id"],
        "status": "processing",
        "model": "flux",
        "duration": 10,
        "priority": "premium",
        "progress": "Generating... 0%",
        "progress_pct": 0,
        "position": 1,
    }
    await api.caller("bk_wrong").get("/api/queue", 401)


async def test_the_list_is_in_the_order_of_service(api: ApiHarness) -> None:
    """Paid jobs, then classes, then lanes round-robin: a bulk does not fill the first positions."""
    bulk, other, best = (
        await api.user("bulk", "premium"),
        await api.user("other", "supporter"),
        await api.user("best", "admin"),
    )
    batch = await bulk.post("/api/v1/jobs/batch", {"jobs": [GENERATION] * 4}, 202)
    a, b, c, d = (job["job_id"] for job in batch["jobs"])
    single = await other.submit(GENERATION)
    admins = await best.submit(GENERATION)
    listed = [job["id"] for job in (await fetch(api, best, "/api/queue"))["jobs"]]
    assert listed[0] == admins
    assert set(listed[1:3]) == {a, single}
    assert listed[3:] == [b, c, d]

    served = [(await api.claim())[0].id for _ in listed]
    assert served == [decode_job_id(one) for one in listed], "as it was said, so it is done"


async def test_a_paid_job_is_first_in_the_list(api: ApiHarness) -> None:
    anna = await api.user(tier="creator")
    user = (await api.users.page(None, 1))[0]
    await PostgresCredit(api.store.database).change(user.id, 5, "")
    first, second = await anna.submit(GENERATION), await anna.submit(GENERATION)
    await anna.post(f"/api/v1/jobs/{second}/skip")
    listed = (await fetch(api, anna, "/api/queue"))["jobs"]
    assert [(job["id"], job["priority"]) for job in listed] == [(second, "skipped"), (first, "creator")]


async def test_status_has_the_scheduler_and_the_wait_for_each_model(api: ApiHarness) -> None:
    anonymous = api.caller(None)
    status = await fetch(api, anonymous, "/status")
    assert status["status"] == "no router answers"
    assert status["scheduler"]["max_batch_size"] == 3
    assert status["scheduler"]["starvation_timeouts"] == {
        "admin": 30,
        "creator": 45,
        "premium": 60,
        "supporter": 90,
        "free": 120,
    }
    assert status["estimated_wait"]["music"] is None

    scheduler = SchedulerView(
        last_model_used="audio",
        batch_count=2,
        max_batch_size=3,
        starvation_timeouts=status["scheduler"]["starvation_timeouts"],
        starvation_weights=status["scheduler"]["starvation_weights"],
    )
    waits = {"music": 90.0, "audio": 45.0}
    api.router.schedulers = [
        SchedulerStatus(status="ok", scheduler=scheduler, estimated_wait=waits, waiting=3, running=1)
    ]
    anna = await api.user(tier="creator")
    for _ in range(4):
        await anna.post("/generate", SONG, 202)
    status = await fetch(api, anonymous, "/status")
    assert (status["scheduler"]["last_model_used"], status["scheduler"]["batch_count"]) == ("audio", 2)
    assert status["queue"] == {"running": 0, "waiting": 4, "retrying": 0}
    assert status["estimated_wait"]["audio"] == 45
    assert status["estimated_wait"]["music"] == 90
