"""Results as JSON lines and CSV, and submissions that wait for the end of the job."""

import asyncio
import csv
import io
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from beacon_contracts.jobs import ExecutionView
from tests.fixtures.waiting import until
from tests.integration.runner_api.harness import GENERATION, MATRIX, PIPELINE, ApiHarness, Caller


async def lines(caller: Caller, job_id: str) -> list[ExecutionView]:
    answer = await caller.http.get(f"/api/v1/jobs/{job_id}/results.jsonl")
    assert answer.status_code == 200, answer.text
    return [ExecutionView.model_validate(orjson.loads(line)) for line in answer.text.splitlines()]


async def table(caller: Caller, job_id: str) -> list[dict[str, str]]:
    answer = await caller.http.get(f"/api/v1/jobs/{job_id}/results.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="{job_id}.csv"'
    return list(csv.DictReader(io.StringIO(answer.text)))


async def test_every_execution_is_a_line_and_a_row(
    api: ApiHarness, anna: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beacon_runner.application.jobs.EXPORTED_EXECUTIONS", 3)
    job_id = await anna.submit(MATRIX)
    await api.run("=1+1", "never", 'a "quoted"\nline', "+4")
    shown = (await anna.job(job_id))["executions"]
    assert [one.model_dump(mode="json") for one in await lines(anna, job_id)] == [
        ExecutionView.model_validate(one).model_dump(mode="json") for one in shown
    ]
    rows = await table(anna, job_id)
    assert [row["execution_id"] for row in rows] == [one["id"] for one in shown]
    assert [row["output"] for row in rows] == ["'=1+1", "", 'a "quoted"\nline', "'+4"]
    assert (rows[1]["state"], rows[1]["failure_code"], rows[0]["run_s"]) == ("failed", "refused", "1.25")


async def test_a_job_is_exported_while_it_runs(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(PIPELINE)
    await api.run("x")
    assert [one.state for one in await lines(anna, job_id)] == ["completed", "pending"]
    assert [row["item"] for row in await table(anna, job_id)] == ["prompt_enhancer", "fast_chat_llm"]


async def test_an_export_reads_a_bounded_number_of_results_at_a_time(
    api: ApiHarness, anna: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [{"id": f"q{number}", "prompt": "x"} for number in range(100)]
    job_id = await anna.submit(MATRIX | {"questions": questions})
    await api.run(*["x"] * 200)
    sizes: list[int] = []
    fetch = type(api.store.database).fetch

    async def counted(self: Any, statement: str, *values: Any) -> Sequence[Any]:
        rows = await fetch(self, statement, *values)
        sizes.append(len(rows))
        return rows

    monkeypatch.setattr(type(api.store.database), "fetch", counted)
    assert len(await lines(anna, job_id)) == 200
    assert sizes == [20] * 10


async def test_a_submission_waits_for_the_end_of_its_job(api: ApiHarness, anna: Caller) -> None:
    sent = asyncio.create_task(
        anna.http.post("/api/v1/jobs", json=GENERATION, headers={"prefer": "respond-async, wait=30"})
    )
    await until(lambda: len(api.watchers) == 1, "the request watches its job")
    job = await api.run("a cat")
    await api.queue.notify_watchers([job])
    answer = await sent
    assert (answer.status_code, answer.headers["preference-applied"]) == (200, "wait=30")
    assert answer.json()["executions"][0]["output"] == {"text": "a cat"}


async def test_a_job_that_does_not_end_in_time_is_accepted(api: ApiHarness, anna: Caller) -> None:
    sent = asyncio.create_task(
        anna.http.post("/api/v1/jobs", json=GENERATION, headers={"prefer": "wait=100000"})
    )
    await until(lambda: len(api.watchers) == 1, "the request watches its job")
    while not sent.done():
        await api.clock.advance(5)
    answer = await sent
    assert (answer.status_code, answer.headers["preference-applied"]) == (202, "wait=60")
    assert (answer.json()["status"], len(api.watchers)) == ("queued", 0)


async def test_a_wait_that_is_no_number_stores_nothing(anna: Caller) -> None:
    problem = await anna.post("/api/v1/jobs", GENERATION, 422, prefer="wait=soon")
    assert problem["errors"][0]["field"] == "Prefer"
    assert (await anna.get("/api/v1/jobs"))["jobs"] == []
