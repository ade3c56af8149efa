"""Incidents of similar systems, reproduced: everything is real except the worker."""

from datetime import timedelta

from beacon_contracts.ids import decode_job_id
from beacon_contracts.jobs import ExecutionState
from beacon_runner.domain.execution.stage_result import ExecutionReport, StageReport
from beacon_runner.redis_queue import Layout
from tests.integration.runner_api.harness import GENERATION, MATRIX, ApiHarness, Caller
from tests.integration.runner_store.harness import NOW, judged, run_reports
from tests.integration.runner_store.statements import AGE_JOB


async def test_duplicate_models_and_messages_run_each_execution_once(api: ApiHarness, anna: Caller) -> None:
    """Incident 1: 100 duplicate executions, some in the wrong region."""
    twice = {"models": ["llama3.2-1b", "llama3.2-1b"], "regions": ["US", "us-east", "EU"]}
    job_id = await anna.submit(MATRIX | twice)
    await api.publish()
    (message,) = await api.queue.claim(list(Layout().classes), 10, "w1")
    (first,) = await api.store.claims.claim([message], "w1")
    (second,) = await api.store.claims.claim([message], "w2")
    assert len(run_reports(second, ["1", "2", "3", "4"])) == 4

    assert await api.store.claims.record([judged(second, "a", "b", "c", "d")]) == {second.id}
    assert await api.store.claims.record([judged(first, "w", "x", "y", "z")]) == frozenset()

    job = await anna.job(job_id)
    found = [(one["item"], one["model"], one["region"], one["actual_region"]) for one in job["executions"]]
    assert found == [
        ("q1", "llama3.2-1b", "US", "US"),
        ("q1", "llama3.2-1b", "EU", "EU"),
        ("q2", "llama3.2-1b", "US", "US"),
        ("q2", "llama3.2-1b", "EU", "EU"),
    ]
    assert [one["output"]["text"] for one in job["executions"]] == ["a", "b", "c", "d"]
    events = (await anna.get(f"/api/v1/jobs/{job_id}/events"))["events"]
    assert [event["type"] for event in events].count("EXECUTION_COMPLETE") == 4
    assert [event["type"] for event in events].count("JOB_COMPLETE") == 1


async def test_a_job_is_not_completed_before_its_last_region(api: ApiHarness, anna: Caller) -> None:
    """Incident 2: completed 83 seconds too early, because a retry in progress was counted as done."""
    job_id = await anna.submit(MATRIX)
    (claimed,) = await api.claim()
    await api.store.run(claimed, "a", "b", "c", "later")
    waiting = await anna.job(job_id)
    assert (waiting["status"], waiting["finished_at"]) == ("retrying", None)
    assert (waiting["progress"]["completed"], waiting["progress"]["pending"]) == (3, 1)

    again = await api.store.claim()
    (execution,) = [report.execution for report in run_reports(again, ["x"])]
    running = ExecutionReport(execution, ExecutionState.RUNNING, 2, started_at=NOW.timestamp())
    await api.store.claims.record([StageReport(again, (running,))])
    under_way = await anna.job(job_id)
    assert (under_way["status"], under_way["finished_at"]) == ("processing", None)
    assert (under_way["progress"]["running"], under_way["progress"]["percent"]) == (1, 75.0)

    await api.store.run(again, "d")
    done = await anna.job(job_id)
    assert (done["status"], done["progress"]["percent"]) == ("completed", 100.0)


async def test_waiting_never_ends_a_job(api: ApiHarness, anna: Caller) -> None:
    """Incident 3: a timeout counted the time in the queue and killed jobs that had not started."""
    job_id = await anna.submit(GENERATION)
    await api.publish()
    await api.store.database.execute(AGE_JOB, decode_job_id(job_id), timedelta(days=20))
    waiting = await anna.job(job_id)
    assert (waiting["status"], waiting["started_at"]) == ("queued", None)
    await api.run("worth the wait")
    job = await anna.job(job_id)
    assert (job["status"], job["executions"][0]["output"]) == ("completed", {"text": "worth the wait"})


async def test_an_empty_output_is_completed(api: ApiHarness, anna: Caller) -> None:
    """Incident 7: an empty model answer was shown as a failure."""
    job_id = await anna.submit(MATRIX)
    (claimed,) = await api.claim()
    report = judged(claimed, "", "", "", "")
    await api.store.claims.record([report])
    job = await anna.job(job_id)
    assert (job["status"], job["progress"]["completed"], job["failure"]) == ("completed", 4, None)
    assert {one["state"] for one in job["executions"]} == {"completed"}
    assert {one["output"]["text"] for one in job["executions"]} == {""}
