"""The examples of tiers, limits, skips, promotion and pipelines, told from end to end."""

import asyncio

import pytest

from tests.acceptance.router.witness import most_at_once
from tests.acceptance.tiers.people import People

pytestmark = pytest.mark.stack

CITY = {"kind": "pipeline", "feature": "full_pipeline", "input": {"prompt": "A futuristic city"}}
STORY = {"kind": "pipeline", "feature": "text_only", "input": {"prompt": "Write a story"}}
SONG = {"kind": "generation", "model": "music", "prompt": "a song", "duration": 10, "region": "US"}
STEPS = {"prompt_enhancer": 5, "fast_chat_llm": 4, "image_gen": 1, "model_3d_gen": 1}


async def test_pipelines_run_step_by_step_within_the_limits_of_each_step(people: People) -> None:
    """Limits 5, 4, 1, 1 hold, each step sees the results before it, and waiting is no failure."""
    john = await people.new("creator")
    jobs = [await john.submit(CITY) for _ in range(8)]
    done = await asyncio.gather(*(john.done(job) for job in jobs))
    for job in done:
        assert job["status"] == "completed", job
        assert set(job["context"]) == set(STEPS)
        assert all(execution["attempt"] == 1 for execution in job["executions"])
    for step, limit in STEPS.items():
        calls = await people.calls(model=step)
        assert len(calls) == 8, f"{step} ran once for each job"
        assert most_at_once(calls) <= limit, step
    told = [event for event in await john.events(jobs[0]) if event.startswith(("STEP", "JOB"))]
    assert told == ["JOB_QUEUED", *["STEP_START", "STEP_COMPLETE"] * 4, "JOB_COMPLETE"]


async def test_a_failed_step_is_resumed_and_what_succeeded_is_never_run_again(people: People) -> None:
    john = await people.new("creator")
    before = {step: len(await people.calls(model=step)) for step in STEPS}
    await people.fault(kind="error", model="image_gen", status=503, next=3)
    job_id = await john.submit(CITY)
    failed = await john.done(job_id)
    assert (failed["status"], failed["stage"]) == ("failed", 2), failed
    assert set(failed["context"]) == {"prompt_enhancer", "fast_chat_llm"}
    assert failed["executions"][2]["attempt"] == 3

    assert (await john.ask("POST", f"/api/v1/jobs/{job_id}/resume")).status_code == 202
    assert (await john.done(job_id))["status"] == "completed"
    for step in ("prompt_enhancer", "fast_chat_llm", "model_3d_gen"):
        assert len(await people.calls(model=step)) == before[step] + 1, step


async def test_a_free_user_who_waited_long_is_promoted_and_runs_once(people: People) -> None:
    alice = await people.new("free")
    await people.operator.ask("POST", "/admin/queues/low/pause")
    try:
        job_id = await alice.submit(STORY)
        done = await alice.done(job_id)
    finally:
        await people.operator.ask("POST", "/admin/queues/low/resume")
    assert (done["status"], done["priority"], done["tier"]) == ("completed", "medium", "free")
    assert done["promoted_at"] is not None
    events = await alice.events(job_id)
    assert events.count("JOB_PROMOTED") == 1
    assert events.count("JOB_COMPLETE") == 1


async def test_a_free_user_has_two_pending_jobs_three_an_hour_and_thirty_seconds(people: People) -> None:
    alice = await people.new("free")
    too_long = await alice.ask("POST", "/api/v1/jobs", SONG | {"duration": 31})
    assert (too_long.status_code, too_long.json()["code"]) == (422, "duration_too_long")
    answers = await asyncio.gather(*(alice.ask("POST", "/api/v1/jobs", SONG) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [202] * 2 + [429] * 18
    taken = [answer.json()["job_id"] for answer in answers if answer.status_code == 202]
    await asyncio.gather(*(alice.done(job) for job in taken))
    await alice.submit(SONG)
    fourth = await alice.ask("POST", "/api/v1/jobs", SONG)
    assert fourth.json()["code"] == "jobs_per_hour_limit"
    assert 3500 < int(fourth.headers["retry-after"]) <= 3600


async def test_who_pays_is_first_and_who_cancels_in_time_has_the_money_back(people: People) -> None:
    bulk, anna = await people.new("admin"), await people.new("free", credit=3)
    await people.operator.ask("POST", "/admin/queues/high/pause")
    await people.operator.ask("POST", "/admin/queues/low/pause")
    try:
        others = [await bulk.submit(SONG) for _ in range(10)]
        paid, dropped = await anna.submit(SONG), await anna.submit(SONG)
        for job in (paid, dropped):
            skipped = await anna.ask("POST", f"/api/v1/jobs/{job}/skip")
            assert (skipped.status_code, skipped.json()["cost"]) == (200, 1), skipped.text
        await anna.ask("POST", f"/api/v1/jobs/{dropped}/cancel")
        assert (await anna.get("/api/v1/me"))["credit"] == 2
    finally:
        await people.operator.ask("POST", "/admin/queues/high/resume")
        await people.operator.ask("POST", "/admin/queues/low/resume")
    mine = await anna.done(paid)
    theirs = await asyncio.gather(*(bulk.done(job) for job in others))
    assert mine["status"] == "completed"
    assert mine["finished_at"] <= sorted(job["finished_at"] for job in theirs)[4], "with the first few"
    assert [entry["entry"] for entry in (await anna.get("/api/v1/me/ledger"))["entries"]] == [
        "refund",
        "skip",
        "skip",
        "grant",
    ]


async def test_one_users_bulk_does_not_block_the_others(people: People) -> None:
    bulk, anna = await people.new("admin"), await people.new("admin")
    quick = {"kind": "generation", "model": "llama3.2-1b", "prompt": "hello", "region": "US"}
    sent = await bulk.ask("POST", "/api/v1/jobs/batch", {"jobs": [quick] * 200})
    assert sent.status_code == 202, sent.text
    mine = await anna.done(await anna.submit(quick))
    assert mine["status"] == "completed"
    left = (await bulk.get("/api/v1/jobs?status=queued&limit=500"))["jobs"]
    assert len(left) > 50, "she did not wait for the bulk"
    await bulk.done(sent.json()["jobs"][-1]["job_id"])
