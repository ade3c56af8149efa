"""Jobs over HTTP: read, cancel, resume, retry."""

from itertools import combinations
from secrets import token_hex
from typing import Any

import asyncpg
import pytest

from beacon_client.runner import RunnerClient
from beacon_contracts.events import JobEvent
from beacon_contracts.ids import decode_job_id, encode_execution_id
from beacon_contracts.inference import InferenceState, InferenceView
from beacon_contracts.jobs import JobView
from beacon_contracts.router_status import QueueStatus
from beacon_runner.ports.router import RouterStatus
from tests.integration.runner_api.harness import GENERATION, MATRIX, PIPELINE, ApiHarness, Caller


async def test_a_new_job_is_shown_with_all_executions(anna: Caller) -> None:
    job = JobView.model_validate(await anna.job(await anna.submit(MATRIX)))
    assert [(one.item, one.region, one.state) for one in job.executions] == [
        ("q1", "US", "pending"),
        ("q1", "EU", "pending"),
        ("q2", "US", "pending"),
        ("q2", "EU", "pending"),
    ]
    assert (job.progress.total, job.progress.pending, job.progress.percent) == (4, 4, 0.0)
    assert job.name == "bias check"


async def test_a_finished_job_shows_its_results(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(MATRIX)
    await api.run("a", "", "c", "d")
    job = await anna.job(job_id)
    assert (job["status"], job["progress"]["percent"]) == ("completed", 100.0)
    assert [one["output"] for one in job["executions"]] == [{"text": text} for text in ("a", "", "c", "d")]
    assert job["executions"][0]["actual_region"] == "US"
    assert job["executions"][0]["timing"] == {"queued_s": 0.5, "load_s": 0.0, "run_s": 1.25}


async def test_a_pipeline_shows_all_its_steps_and_their_results(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(PIPELINE)
    (claimed,) = await api.claim()
    await api.store.run(claimed, "x")
    job = await anna.job(job_id)
    assert [(one["step"], one["state"]) for one in job["executions"]] == [
        ("prompt_enhancer", "completed"),
        ("fast_chat_llm", "pending"),
    ]
    assert job["context"] == {"prompt_enhancer": {"text": "x"}}
    assert (job["stage"], job["stages"]) == (1, 2)


async def test_a_job_of_many_executions_is_read_in_one_query_per_table(
    api: ApiHarness, anna: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [{"id": f"q{number}", "prompt": "x"} for number in range(500)]
    job_id = await anna.submit(MATRIX | {"questions": questions})
    await api.run(*["x"] * 1_000)
    await anna.get("/api/v1/me")
    queries: list[str] = []
    fetch = asyncpg.Connection.fetch
    fetchrow = asyncpg.Connection.fetchrow

    async def counted(self: Any, query: str, *values: Any) -> Any:
        queries.append(query.splitlines()[0])
        return await fetch(self, query, *values)

    async def counted_row(self: Any, query: str, *values: Any) -> Any:
        queries.append(query.splitlines()[0])
        return await fetchrow(self, query, *values)

    monkeypatch.setattr(asyncpg.Connection, "fetch", counted)
    monkeypatch.setattr(asyncpg.Connection, "fetchrow", counted_row)
    first = await anna.job(job_id)
    assert queries == ["-- job_queries.job", "-- job_queries.executions"]
    assert len(first["executions"]) == 200
    path = f"/api/v1/jobs/{job_id}/executions"
    found, cursor = first["executions"], first["executions_cursor"]
    while cursor is not None:
        page = await anna.get(path, cursor=cursor, limit=300, outputs="false")
        assert all(one["state"] == "completed" and one["output"] is None for one in page["executions"])
        found, cursor = found + page["executions"], page["next_cursor"]
    assert [one["id"] for one in found] == [f"{job_id.replace('job_', 'exe_')}.0.{n}" for n in range(1_000)]
    assert first["executions"][7]["output"] == {"text": "x"}
    without = await anna.get(f"/api/v1/jobs/{job_id}", outputs="false")
    assert {one["output"] for one in without["executions"]} == {None}
    key = anna.http.headers["authorization"].removeprefix("Bearer ")
    async with RunnerClient("http://runner", key, transport=api.transport) as client:
        assert len((await client.job(job_id)).executions) == 1_000


async def test_a_page_ends_where_its_outputs_are_too_large(api: ApiHarness, anna: Caller) -> None:
    questions = [f"question {number}" for number in range(6)]
    job_id = await anna.submit(MATRIX | {"questions": questions, "regions": ["US"]})
    large = [
        token_hex(1_500_000) for _ in range(3)
    ]  # about 3 MB each: it does not compress to less than half
    await api.run(large[0], "small", *large[1:], "small", "small")
    pages = [await anna.job(job_id)]
    cursor = pages[0]["executions_cursor"]
    while cursor is not None:
        page = await anna.get(f"/api/v1/jobs/{job_id}/executions", cursor=cursor)
        pages, cursor = [*pages, page], page["next_cursor"]
    sizes = [len(page["executions"]) for page in pages]
    assert len(sizes) > 1
    assert sum(sizes) == 6
    texts = [one["output"]["text"] for page in pages for one in page["executions"]]
    assert texts == [large[0], "small", *large[1:], "small", "small"]
    without = await anna.get(f"/api/v1/jobs/{job_id}", outputs="false")
    assert (len(without["executions"]), without["executions_cursor"]) == (6, None)


async def test_executions_are_paged_within_one_job(api: ApiHarness, anna: Caller) -> None:
    job_id, other = await anna.submit(MATRIX), await anna.submit(GENERATION)
    foreign = (await anna.job(other))["executions"][0]["id"]
    for cursor in (foreign, other, "exe_1", ""):
        problem = await anna.get(f"/api/v1/jobs/{job_id}/executions", 422, cursor=cursor)
        assert problem["errors"][0]["field"] == "cursor"
    last = encode_execution_id(decode_job_id(job_id), 9, 9)
    past = await anna.get(f"/api/v1/jobs/{job_id}/executions", cursor=last)
    assert past == {"executions": [], "next_cursor": None}
    bert = await api.user("bert")
    await bert.get(f"/api/v1/jobs/{job_id}/executions", 404)


async def test_jobs_are_listed_newest_first_in_pages_with_filters(api: ApiHarness, anna: Caller) -> None:
    ids = [await anna.submit(body) for body in (GENERATION, MATRIX, GENERATION, PIPELINE, GENERATION)]
    await api.run("done")
    first = await anna.get("/api/v1/jobs", limit=2)
    second = await anna.get("/api/v1/jobs", limit=2, cursor=first["next_cursor"])
    third = await anna.get("/api/v1/jobs", limit=2, cursor=second["next_cursor"])
    listed = [job["job_id"] for page in (first, second, third) for job in page["jobs"]]
    assert listed == ids[::-1]
    assert third["next_cursor"] is None
    done = await anna.get("/api/v1/jobs", status="completed")
    assert [job["job_id"] for job in done["jobs"]] == ids[:1]
    assert len((await anna.get("/api/v1/jobs", status=["completed", "queued"]))["jobs"]) == 5
    assert [job["job_id"] for job in (await anna.get("/api/v1/jobs", kind="matrix"))["jobs"]] == [ids[1]]


async def test_jobs_in_any_choice_of_states_are_listed_in_one_order(api: ApiHarness, anna: Caller) -> None:
    states: dict[str, str] = {}
    for wanted in ("completed", "failed", "processing", "partial", "cancelled") * 2:
        job_id = await anna.submit({**MATRIX, "regions": ["US"]})
        if wanted == "processing":
            assert len(await api.start()) == 1
        elif wanted == "cancelled":
            await anna.post(f"/api/v1/jobs/{job_id}/cancel")
            assert await api.claim() == []  # its message is out of date
        else:
            await api.run(
                *{"completed": ("a", "b"), "failed": ("never",) * 2, "partial": ("a", "never")}[wanted]
            )
        states[job_id] = wanted
    states |= {await anna.submit(GENERATION): "queued" for _ in range(2)}
    some = combinations(("completed", "failed", "partial", "cancelled", "queued", "processing"), 3)
    for chosen in [(), *some]:
        listed, page = [], await anna.get("/api/v1/jobs", status=chosen, limit=2)
        while True:
            listed += [job["job_id"] for job in page["jobs"]]
            if page["next_cursor"] is None:
                break
            page = await anna.get("/api/v1/jobs", status=chosen, limit=2, cursor=page["next_cursor"])
        expected = [job for job, state in reversed(states.items()) if not chosen or state in chosen]
        assert listed == expected, chosen


@pytest.mark.parametrize("params", [{"limit": 0}, {"limit": 501}, {"cursor": "nonsense"}, {"status": "odd"}])
async def test_an_invalid_filter_of_jobs_is_refused_with_its_field(
    anna: Caller, params: dict[str, Any]
) -> None:
    problem = await anna.get("/api/v1/jobs", 422, **params)
    assert problem["errors"][0]["field"].startswith(next(iter(params)))


@pytest.mark.parametrize("job_id", ["job_", "nonsense", "exe_01m7hhdj4nepnvyzhw2e9ya3am", "job_" + "z" * 26])
async def test_an_invalid_id_is_not_found(anna: Caller, job_id: str) -> None:
    await anna.get(f"/api/v1/jobs/{job_id}", 404)
    await anna.get(f"/api/v1/executions/{job_id}", 404)


async def test_cancelling_a_queued_job_removes_its_message(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(MATRIX)
    await api.publish()
    cancelled = await anna.post(f"/api/v1/jobs/{job_id}/cancel")
    assert cancelled["status"] == "cancelled"
    assert {one["state"] for one in cancelled["executions"]} == {"cancelled"}
    assert await api.claim() == []
    assert api.router.cancelled == []
    assert (await anna.post(f"/api/v1/jobs/{job_id}/cancel"))["status"] == "cancelled"


async def test_cancelling_a_running_job_reaches_the_router(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(MATRIX)
    (claimed,) = await api.claim()
    await anna.post(f"/api/v1/jobs/{job_id}/cancel")
    job = await anna.job(job_id)
    assert sorted(api.router.cancelled) == [one["id"] for one in job["executions"]]
    from tests.integration.runner_store.harness import judged  # noqa: PLC0415

    assert await api.store.claims.record([judged(claimed, "a", "b", "c", "d")]) == frozenset()
    assert (await anna.job(job_id))["status"] == "cancelled"


async def test_a_finished_job_cannot_be_cancelled(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(GENERATION)
    await api.run("done")
    problem = await anna.post(f"/api/v1/jobs/{job_id}/cancel", status=409)
    assert (problem["code"], problem["state"]) == ("wrong_state", "completed")


async def test_resume_runs_the_failed_executions(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(GENERATION)
    assert (await anna.post(f"/api/v1/jobs/{job_id}/resume", status=409))["code"] == "wrong_state"
    (claimed,) = await api.claim()
    await api.store.run(claimed, "never")
    assert (await anna.post(f"/api/v1/jobs/{job_id}/resume", status=400))["code"] == "not_retryable"


async def test_retry_question_has_a_response_for_each_state(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(MATRIX)
    (claimed,) = await api.claim()
    names = [one["id"] for one in (await anna.job(job_id))["executions"]]
    in_flight = await anna.post(f"/api/v1/executions/{names[0]}/retry-question", status=202)
    assert (in_flight["execution"]["state"], in_flight["retry_attempt"]) == ("pending", 0)
    await api.store.run(claimed, "a", "later", "never", "d")
    for _ in range(3):
        entries = await api.store.published()
        await api.store.run((await api.store.claims.claim([entries[0].message], "w"))[0], "later")
    await api.store.published()
    completed = await anna.post(f"/api/v1/executions/{names[0]}/retry-question")
    assert completed["execution"]["output"] == {"text": "a"}
    refused = await anna.post(f"/api/v1/executions/{names[2]}/retry-question", status=400)
    assert refused["code"] == "not_retryable"
    accepted = await anna.post(f"/api/v1/executions/{names[1]}/retry-question", status=202)
    assert (accepted["retry_attempt"], accepted["max_attempts"]) == (1, 3)
    shown = await anna.get(f"/api/v1/executions/{names[1]}")
    assert [attempt["number"] for attempt in shown["attempts"]] == [1, 2, 3, 4, 5]
    assert [attempt["state"] for attempt in shown["attempts"]] == ["failed"] * 4 + ["pending"]


async def test_retry_question_during_the_backoff_runs_now(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    job_id = await anna.submit(GENERATION)
    name = (await anna.job(job_id))["executions"][0]["id"]
    await api.run("later")
    await api.publish()
    assert (await anna.job(job_id))["status"] == "retrying"
    assert await api.claim() == [], "its next attempt is in a minute"
    accepted = await anna.post(f"/api/v1/executions/{name}/retry-question", status=202)
    assert (accepted["retry_attempt"], accepted["execution"]["attempt"]) == (1, 2)
    await api.run("a cat")
    job = await anna.job(job_id)
    assert (job["status"], job["attempt"]) == ("completed", 2)
    assert (await admin.get("/admin/runtime/stats"))["retry"] == 0, "the message of the backoff is removed"


async def test_used_up_retries_are_429_with_the_counts(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(GENERATION)
    name = (await anna.job(job_id))["executions"][0]["id"]
    (claimed,) = await api.claim()
    await api.store.run(claimed, "later")
    for _ in range(3):
        await api.store.run(await api.store.claim(), "later")
    await api.store.published()
    for _ in range(3):
        await anna.post(f"/api/v1/executions/{name}/retry-question", status=202)
        await api.store.run(await api.store.claim(), "later")
        await api.store.published()
    problem = await anna.post(f"/api/v1/executions/{name}/retry-question", status=429)
    assert (problem["code"], problem["retry_attempt"], problem["max_attempts"]) == ("retries_exhausted", 3, 3)


async def test_why_counts_the_jobs_ahead_and_reports_a_paused_class(
    api: ApiHarness, anna: Caller, admin: Caller
) -> None:
    jobs = [await anna.submit(GENERATION) for _ in range(3)]
    assert "moved into or out of its queue" in (await anna.get(f"/api/v1/jobs/{jobs[2]}/why"))["summary"]
    await api.publish()
    why = await anna.get(f"/api/v1/jobs/{jobs[2]}/why")
    assert (why["jobs_ahead"], why["priority"], why["paused"]) == (2, "medium", False)
    assert (await anna.job(jobs[2]))["position"] == 3
    await admin.post("/admin/queues/medium/pause")
    assert "paused" in (await anna.get(f"/api/v1/jobs/{jobs[0]}/why"))["summary"]
    await admin.post("/admin/queues/medium/resume")
    assert (await anna.get(f"/api/v1/jobs/{jobs[0]}/why"))["jobs_ahead"] == 0


async def test_why_reports_executions_at_the_router(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(MATRIX)
    await api.claim()
    names = [one["id"] for one in (await anna.job(job_id))["executions"]]
    api.router.known[names[1]] = InferenceView(
        request_id=names[1],
        state=InferenceState.QUEUED,
        model="llama3.2-1b",
        requested_region="EU",
        fence=1,
        position=7,
        waiting_for="the cap of group modal",
    )
    why = await anna.get(f"/api/v1/jobs/{job_id}/why")
    assert [(one["execution_id"], one["position"]) for one in why["executions"]] == [(names[1], 7)]
    assert any("cap of group modal" in reason for reason in why["reasons"])


def router_with_a_refused_key(state: str = "open") -> RouterStatus:
    counts = dict.fromkeys(("main", "front", "retry", "completed", "failed", "cancelled", "slots", "busy"), 0)
    backends = [
        {
            "name": name,
            "region": "US",
            "slots": 1,
            "busy": 0,
            "models": models,
            "breaker": {"state": state, "cause": "its key is refused"},
        }
        for name, models in (("us-1", ["flux"]), ("us-2", ["music"]))
    ]
    region = {"region": "US", "concurrency": 1, "healthy": False, "backends": backends, **counts}
    totals = dict.fromkeys(("global_retry", "backing_off", "waiting", "running", "held_bytes"), 0)
    queues = QueueStatus.model_validate({"regions": {"US": region}, **totals})
    return RouterStatus("http://router", 0, queues)


async def test_why_reports_retries_and_final_states(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(GENERATION)
    (claimed,) = await api.claim()
    await api.store.run(claimed, "later")
    retrying = await anna.get(f"/api/v1/jobs/{job_id}/why")
    assert retrying["status"] == "retrying"
    assert "it broke" in retrying["reasons"][0]
    api.router.statuses = [router_with_a_refused_key()]
    reasons = (await anna.get(f"/api/v1/jobs/{job_id}/why"))["reasons"]
    assert reasons[1:] == ["backend us-1 in US is not available: its key is refused"]
    api.router.statuses = [router_with_a_refused_key("starting")]
    reasons = (await anna.get(f"/api/v1/jobs/{job_id}/why"))["reasons"]
    assert reasons[1:] == ["backend us-1 in US is starting"]
    await anna.post(f"/api/v1/jobs/{job_id}/cancel")
    assert "cancelled" in (await anna.get(f"/api/v1/jobs/{job_id}/why"))["summary"]


async def test_a_new_job_has_the_reason_that_its_backends_start(api: ApiHarness, anna: Caller) -> None:
    api.router.statuses = [router_with_a_refused_key("starting")]
    await api.clock.advance(1)
    accepted = await anna.post("/api/v1/jobs", GENERATION, 202)
    reason = "the backends of flux are starting"
    assert (accepted["estimated_wait_s"], accepted["no_estimate_reason"]) == (None, reason)


async def test_events_are_read_from_any_number(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(GENERATION)
    page = await anna.get(f"/api/v1/jobs/{job_id}/events")
    assert ([event["type"] for event in page["events"]], page["more"]) == (["JOB_QUEUED"], True)
    await api.run("done")
    page = await anna.get(f"/api/v1/jobs/{job_id}/events", after=1)
    events = [JobEvent.model_validate(event) for event in page["events"]]
    assert [event.seq for event in events] == [2, 3, 4]
    assert page["more"] is False
    assert {event.job_id for event in events} == {job_id}


async def test_a_stream_replays_missed_events_and_ends_with_the_job(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(MATRIX)
    await api.run("a", "b", "c", "never")
    stream = {"accept": "text/event-stream"}
    whole = await anna.http.get(f"/api/v1/jobs/{job_id}/events", headers=stream)
    assert whole.headers["content-type"].startswith("text/event-stream")
    numbers = [line for line in whole.text.splitlines() if line.startswith("id: ")]
    assert numbers == [f"id: {number}" for number in range(1, 11)]
    rest = await anna.http.get(f"/api/v1/jobs/{job_id}/events", headers={**stream, "last-event-id": "9"})
    assert rest.text.startswith("id: 10\nevent: JOB_PARTIAL\ndata: {")
    bad = await anna.http.get(f"/api/v1/jobs/{job_id}/events", headers={**stream, "last-event-id": "x"})
    assert bad.status_code == 422


async def test_ids_are_encoded_in_responses_and_stored_as_uuids(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(GENERATION)
    assert (await api.store.job(decode_job_id(job_id))).head.kind == "generation"
