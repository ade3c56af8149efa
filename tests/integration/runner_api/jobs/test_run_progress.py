"""What backends report of running executions, as users see it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from beacon_contracts.inference import RunProgress
from beacon_contracts.jobs import ExecutionState
from beacon_runner.domain.execution.stage_result import ClaimedJob, ExecutionReport, RunUpdate, StageReport
from tests.fixtures.waiting import WAIT_TIMEOUT_S
from tests.integration.runner_api.harness import GENERATION, MATRIX, ApiHarness, Caller, served
from tests.integration.runner_store.harness import NOW, judged

PREVIEW = "data:image/png;base64,AAAA"


async def report(
    api: ApiHarness, claimed: ClaimedJob, percent: float | None, message: str | None = None
) -> None:
    """A worker records that the first execution runs, and its progress."""
    running = judged(claimed, *["x"] * (4 if "questions" in claimed.spec else 1)).executions[0]
    started = ExecutionReport(
        running.execution, ExecutionState.RUNNING, 1, started_at=NOW.timestamp(), start_reported=True
    )
    progress = RunProgress(percent=percent, message=message, preview=PREVIEW)
    update = RunUpdate(running.execution, 1, None, progress)
    assert await api.store.claims.record([StageReport(claimed, (started,), updates=(update,))])
    await api.queue.notify_watchers([claimed.id])


async def test_a_running_execution_shows_its_progress(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(GENERATION)
    (claimed,) = await api.claim()
    await report(api, claimed, 45.0, "step 9 of 20")
    (execution,) = (await anna.job(job_id))["executions"]
    shown = {"percent": 45.0, "message": "step 9 of 20", "preview": PREVIEW}
    assert execution["progress"] == shown
    assert (await anna.get(f"/api/v1/executions/{execution['id']}"))["progress"] == shown
    without_outputs = await anna.get(f"/api/v1/jobs/{job_id}", outputs=False)
    assert without_outputs["executions"][0]["progress"] == shown | {"preview": None}
    await api.store.run(claimed, "a cat")
    assert (await anna.job(job_id))["executions"][0]["progress"] is None


async def test_the_progress_of_a_job_contains_running_executions(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(MATRIX)
    (claimed,) = await api.claim()
    await report(api, claimed, 50.0)
    assert (await anna.job(job_id))["progress"]["percent"] == 12.5


async def test_the_public_queue_has_the_percent_of_a_running_job(api: ApiHarness, anna: Caller) -> None:
    """As seed 001 shows it."""
    await anna.submit(GENERATION)
    (claimed,) = await api.claim()
    await report(api, claimed, 45.0)
    await api.clock.advance(2)
    (listed,) = (await api.caller(None).get("/api/queue"))["jobs"]
    assert (listed["progress"], listed["progress_pct"]) == ("Generating... 45%", 45)


async def test_a_late_client_gets_the_newest_progress(api: ApiHarness, anna: Caller) -> None:
    job_id = await anna.submit(GENERATION)
    (claimed,) = await api.claim()
    for percent in (10.0, None, 45.0):
        await report(api, claimed, percent)
    events = (await anna.get(f"/api/v1/jobs/{job_id}/events"))["events"]
    (event,) = (event for event in events if event["type"] == "EXECUTION_PROGRESS")
    execution = (await anna.job(job_id))["executions"][0]
    assert event["data"] == {
        "execution_id": execution["id"],
        "item": "generation",
        "model": "flux",
        "region": "US",
        "attempt": 1,
        "percent": 45.0,
        "message": None,
        "preview": PREVIEW,
    }
    after = await anna.get(f"/api/v1/jobs/{job_id}/events", after=event["seq"])
    assert after["events"] == []


@pytest.fixture
async def address(api: ApiHarness, tmp_path: Path) -> AsyncIterator[str]:
    async with served(api, api.transport.app, tmp_path) as url:
        api.address = url
        yield url


async def test_an_event_stream_sends_each_progress_at_once(api: ApiHarness, address: str) -> None:
    anna = await api.user("anna")
    job_id = await anna.submit(GENERATION)
    (claimed,) = await api.claim()
    stream = anna.http.stream(
        "GET",
        f"/api/v1/jobs/{job_id}/events",
        headers={"accept": "text/event-stream"},
        timeout=WAIT_TIMEOUT_S,
    )
    async with stream as answer:
        lines = answer.aiter_lines()
        assert await percents(api, claimed, lines) == [10.0, 45.0]


async def test_a_websocket_sends_each_progress_at_once(api: ApiHarness, address: str) -> None:
    anna = await api.user("anna")
    job_id = await anna.submit(GENERATION)
    (claimed,) = await api.claim()
    ticket = (await anna.post("/api/v1/tickets", {"job_id": job_id}))["ticket"]
    url = f"{address.replace('http', 'ws', 1)}/ws/{job_id}?ticket={ticket}"
    async with connect(url) as socket:
        messages = (f"data: {message!s}" async for message in socket)
        assert await percents(api, claimed, messages) == [10.0, 45.0]


async def percents(api: ApiHarness, claimed: ClaimedJob, lines: Any) -> list[float]:
    """Each progress is reported when the one before has arrived."""
    seen = []
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        for percent in (10.0, 45.0):
            await report(api, claimed, percent)
            async for line in lines:
                event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
                if event.get("type") == "EXECUTION_PROGRESS":
                    seen.append(event["data"]["percent"])
                    break
    return seen
