"""Tiers, limits, skips, promotion and pipelines, end to end."""

import asyncio

import pytest

from tests.acceptance.router.ledger_checks import most_at_once
from tests.acceptance.tiers.users import UserFactory
from tests.fixtures.waiting import until

pytestmark = pytest.mark.stack

CITY = {"kind": "pipeline", "feature": "full_pipeline", "input": {"prompt": "A futuristic city"}}
STORY = {"kind": "pipeline", "feature": "text_only", "input": {"prompt": "Write a story"}}
SONG = {"kind": "generation", "model": "music", "prompt": "a song", "duration": 10, "region": "US"}
STEPS = {"prompt_enhancer": 5, "fast_chat_llm": 4, "image_gen": 1, "model_3d_gen": 1}


async def test_pipelines_run_step_by_step_within_the_limit_of_each_step(users: UserFactory) -> None:
    """Limits 5, 4, 1, 1 hold, each step gets earlier results, and waiting is no failure."""
    john = await users.new("creator")
    before = {step: len(await users.calls(model=step)) for step in STEPS}
    jobs = [await john.submit(CITY) for _ in range(8)]
    done = await asyncio.gather(*(john.done(job) for job in jobs))
    for job in done:
        assert job["status"] == "completed", job
        assert set(job["context"]) == set(STEPS)
        assert all(execution["attempt"] == 1 for execution in job["executions"])
    for step, limit in STEPS.items():
        calls = (await users.calls(model=step))[before[step] :]
        assert len(calls) == 8, f"{step} ran once for each job"
        assert most_at_once(calls) <= limit, step
    progress = [event for event in await john.events(jobs[0]) if event.startswith(("STEP", "JOB"))]
    assert progress == ["JOB_QUEUED", *["STEP_START", "STEP_COMPLETE"] * 4, "JOB_COMPLETE"]


async def test_a_resume_runs_the_failed_step_and_no_completed_step(users: UserFactory) -> None:
    john = await users.new("creator")
    before = {step: len(await users.calls(model=step)) for step in STEPS}
    await users.fault(kind="error", model="image_gen", status=503, next=3)
    job_id = await john.submit(CITY)
    failed = await john.done(job_id)
    assert (failed["status"], failed["stage"]) == ("partial", 2), failed
    assert set(failed["context"]) == {"prompt_enhancer", "fast_chat_llm"}
    assert failed["executions"][2]["attempt"] == 3

    assert (await john.request("POST", f"/api/v1/jobs/{job_id}/resume")).status_code == 202
    assert (await john.done(job_id))["status"] == "completed"
    for step in ("prompt_enhancer", "fast_chat_llm", "model_3d_gen"):
        assert len(await users.calls(model=step)) == before[step] + 1, step


async def test_a_job_that_waited_long_is_promoted_and_runs_once(users: UserFactory) -> None:
    alice = await users.new("free")
    async with users.paused("low"):
        job_id = await alice.submit(STORY)
        done = await alice.done(job_id)
    assert (done["status"], done["priority"], done["tier"]) == ("completed", "medium", "free")
    assert done["promoted_at"] is not None
    events = await alice.events(job_id)
    assert events.count("JOB_PROMOTED") == 1
    assert events.count("JOB_COMPLETE") == 1


async def test_the_limits_of_the_free_tier_hold(users: UserFactory) -> None:
    alice = await users.new("free")
    too_long = await alice.request("POST", "/api/v1/jobs", SONG | {"duration": 31})
    assert (too_long.status_code, too_long.json()["code"]) == (422, "duration_too_long")
    await users.hold("music")
    answers = await asyncio.gather(*(alice.request("POST", "/api/v1/jobs", SONG) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [202] * 2 + [429] * 18
    await users.release()
    taken = [answer.json()["job_id"] for answer in answers if answer.status_code == 202]
    await asyncio.gather(*(alice.done(job) for job in taken))
    await alice.submit(SONG)
    fourth = await alice.request("POST", "/api/v1/jobs", SONG)
    assert fourth.json()["code"] == "jobs_per_hour_limit"
    assert 0 < int(fourth.headers["retry-after"]) <= 3600


async def test_a_paid_job_is_next_on_the_gpu_and_refunded_if_cancelled_before(
    users: UserFactory,
) -> None:
    bulk, anna = await users.new("admin"), await users.new("supporter", credit=4)
    await users.hold("music")
    jobs = []
    for place in (None, None, None, None, 1, 2, 3):  # four run, the others wait at the router
        jobs.append(await bulk.submit(SONG))
        await (bulk.runs(jobs[-1]) if place is None else bulk.waits_at_position(jobs[-1], place))
    async with users.paused("high", "medium"):
        paid, dropped = await anna.submit(SONG), await anna.submit(SONG)
        await anna.when(paid, status="queued", position=4)  # after the three at the router
        await anna.when(dropped, status="queued", position=5)
        skipped = (await anna.request("POST", f"/api/v1/jobs/{dropped}/skip")).json()
        assert (skipped["cost"], skipped["places_gained"], skipped["credit"]) == (1, 1, 3), skipped
        await anna.request("POST", f"/api/v1/jobs/{dropped}/cancel")
        assert (await anna.get("/api/v1/me"))["credit"] == 4
        assert (await anna.request("POST", f"/api/v1/jobs/{paid}/skip")).status_code == 200
    await anna.waits_at_position(paid, 1)
    late = await anna.request("POST", f"/api/v1/jobs/{paid}/skip")
    assert (late.status_code, late.json()["code"]) == (409, "already_skipped")
    await users.release(1)
    await anna.runs(paid)
    for place, job in enumerate(jobs[4:], 1):
        await bulk.waits_at_position(job, place)
    await users.release()
    assert (await anna.done(paid))["price_paid"] == 1
    entries = (await anna.get("/api/v1/me/ledger"))["entries"]
    assert [entry["entry"] for entry in entries] == ["skip", "refund", "skip", "grant"]
    for job in jobs:
        assert (await bulk.done(job))["status"] == "completed"


async def test_a_job_that_waits_at_the_router_is_skipped_ahead_and_runs_once(users: UserFactory) -> None:
    john = await users.new("creator", credit=1)
    before = len(await users.calls(model="music"))
    await users.hold("music")
    jobs = []
    for place in (None, None, None, None, 1, 2, 3):
        jobs.append(await john.submit(SONG))
        await (john.runs(jobs[-1]) if place is None else john.waits_at_position(jobs[-1], place))
    *running, second, third, paid = jobs
    skipped = await john.request("POST", f"/api/v1/jobs/{paid}/skip")
    assert (skipped.status_code, skipped.json()["places_gained"]) == (200, 2), skipped.text
    for place, job in enumerate((paid, second, third), 1):
        await john.waits_at_position(job, place)
    on_gpu = await john.request("POST", f"/api/v1/jobs/{running[0]}/skip")
    assert (on_gpu.status_code, on_gpu.json()["state"]) == (409, "processing")
    await users.release(1)
    await john.runs(paid)
    await users.release()
    for job in jobs:
        assert (await john.done(job))["status"] == "completed"
    assert len(await users.calls(model="music")) == before + len(jobs)


async def test_a_cancel_is_refunded_at_the_router_and_not_on_the_gpu(
    users: UserFactory,
) -> None:
    bulk, anna = await users.new("admin"), await users.new("free", credit=4)
    await users.hold("music")
    running = [await bulk.submit(SONG) for _ in range(4)]
    for job in running:
        await bulk.runs(job)
    paid: list[str] = []
    for place in (1, 2):
        async with users.paused("high", "low"):
            paid.append(await anna.submit(SONG))
            assert (await anna.request("POST", f"/api/v1/jobs/{paid[-1]}/skip")).status_code == 200
        await anna.waits_at_position(paid[-1], place)
    dropped, kept = paid
    answer = (await anna.request("POST", f"/api/v1/jobs/{dropped}/cancel")).json()
    assert (answer["status"], answer["price_paid"]) == ("cancelled", 0)
    assert (await anna.get("/api/v1/me"))["credit"] == 3
    await users.release(1)
    await anna.runs(kept)
    answer = (await anna.request("POST", f"/api/v1/jobs/{kept}/cancel")).json()
    assert (answer["status"], answer["price_paid"]) == ("cancelled", 1)
    assert (await anna.get("/api/v1/me"))["credit"] == 3
    await users.release()
    for job in running:
        assert (await bulk.done(job))["status"] == "completed"


async def test_a_bulk_submission_does_not_block_other_users(users: UserFactory) -> None:
    """With 200 waiting jobs of one user, the job of another user starts second."""
    bulk, anna = await users.new("admin"), await users.new("admin")
    await users.hold("music")
    sent = (await bulk.request("POST", "/api/v1/jobs/batch", {"jobs": [SONG] * 200})).json()["jobs"]
    await users.workers_have(200)
    mine = await anna.submit(SONG)
    waiting = await until(lambda: anna.waits_at_router(mine), "her job waits at the router")
    assert waiting["position"] <= 2
    assert (await bulk.job(sent[-1]["job_id"]))["position"] > 150
    async with users.paused("high"):
        for job in reversed(sent):
            await bulk.request("POST", f"/api/v1/jobs/{job['job_id']}/cancel")
    await users.release()
    assert (await anna.done(mine))["status"] == "completed"


async def test_flux_and_sdxl_run_concurrently_and_each_in_order(users: UserFactory) -> None:
    """Flux-A, SDXL-B, Flux-C, Flux-D: one of each model runs, and C waits for A alone."""
    john = await users.new("creator")
    for model in ("flux", "sdxl"):
        await users.hold(model)
    flux_a, sdxl_b = await john.submit(picture("flux")), await john.submit(picture("sdxl"))
    for job in (flux_a, sdxl_b):
        await john.runs(job)
    flux_c = await john.submit(picture("flux"))
    await john.waits_at_position(flux_c, 1)
    flux_d = await john.submit(picture("flux"))
    await john.waits_at_position(flux_d, 2)
    assert "flux in US" in (await john.get(f"/api/v1/jobs/{flux_c}/why"))["reasons"][0]

    await users.release(1)
    assert (await john.done(flux_a))["status"] == "completed"
    await john.runs(flux_c)
    await john.waits_at_position(flux_d, 1)
    await john.runs(sdxl_b)
    await users.release()
    for job in (sdxl_b, flux_c, flux_d):
        assert (await john.done(job))["status"] == "completed"
    for model in ("flux", "sdxl"):
        assert most_at_once(await users.calls(model=model)) == 1


async def test_a_failed_job_is_retried_three_times_and_then_by_its_user(
    users: UserFactory,
) -> None:
    """Main queue, retry queue, dead letters; then the retry by the user."""
    john, operator = await users.new("creator"), users.operator
    await users.fault(kind="error", model="audio", status=503, next=4)
    job_id = await john.submit(picture("audio"))
    failed = await john.done(job_id)
    assert (failed["status"], failed["failure"]["retryable"]) == ("failed", True)
    (execution,) = failed["executions"]
    assert execution["attempt"] == 4, "the first and three retries"
    assert (await john.events(job_id)).count("JOB_RETRYING") == 3

    dead_letters = (await operator.get("/admin/queue-dead"))["dead_letters"]
    (dead_letter,) = [one for one in dead_letters if one["job_id"] == job_id]
    assert dead_letter["reason"] == "attempts_used_up"
    assert (await operator.get("/admin/runtime/stats"))["dead"] == len(dead_letters)

    retry = f"/api/v1/executions/{execution['id']}/retry-question"
    assert (await john.request("POST", retry)).status_code == 202
    assert (await john.done(job_id))["status"] == "completed"
    assert (await john.request("POST", retry)).status_code == 200, "it is there already"
    left = (await operator.get("/admin/queue-dead"))["dead_letters"]
    assert job_id not in {one["job_id"] for one in left}


async def test_a_step_without_capacity_reports_that_it_waits(users: UserFactory) -> None:
    """Image generation has a limit of one: the second job reports that it waits and does not fail."""
    john = await users.new("creator")
    await users.hold("image_gen")
    first = await john.submit(CITY)
    await john.runs(first, stage=2)
    second = await john.submit(CITY)
    waiting = await john.waits_at_position(second, 1, stage=2)
    assert set(waiting["context"]) == {"prompt_enhancer", "fast_chat_llm"}
    assert "image_gen in US" in (await john.get(f"/api/v1/jobs/{second}/why"))["reasons"][0]
    await users.release()
    for job in (first, second):
        done = await john.done(job)
        assert (done["status"], [one["attempt"] for one in done["executions"]]) == ("completed", [1] * 4)


def picture(model: str) -> dict[str, str]:
    return {"kind": "generation", "model": model, "prompt": "cat", "region": "US"}
