"""The runner's client over real sockets: retries and errors."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import orjson
import pytest

from beacon_client import (
    Beacon,
    BeaconError,
    BeaconUnreachable,
    JobFailedError,
    RunnerClient,
    WaitTimeoutError,
)
from beacon_contracts.jobs import GenerationJob, JobState
from tests.integration.client.documents import ACCEPTED, execution, job, summary
from tests.integration.client.runner_stub import (
    RunnerStub,
    cut,
    event,
    page,
    problem,
    runner_stub,
    stream,
)

CAT = GenerationJob(kind="generation", model="flux", prompt="a cat")


class RecordedSleep:
    """Records the pauses and returns without waiting."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
async def runner() -> AsyncIterator[RunnerStub]:
    async with runner_stub() as one:
        yield one


@pytest.fixture
def pauses() -> RecordedSleep:
    return RecordedSleep()


@pytest.fixture
async def client(runner: RunnerStub, pauses: RecordedSleep) -> AsyncIterator[RunnerClient]:
    async with RunnerClient(runner.url, "secret", sleep=pauses) as one:
        yield one


async def test_a_submission_carries_the_key_and_a_fresh_idempotency_key(
    runner: RunnerStub, client: RunnerClient
) -> None:
    runner.on("POST /api/v1/jobs", ACCEPTED)
    accepted = await client.submit(CAT)
    await client.submit({"kind": "generation", "model": "flux", "prompt": "a cat"})
    first, second = runner.calls
    assert accepted.job_id == "job_a"
    assert GenerationJob.model_validate_json(first.body) == CAT
    assert first.body == second.body
    assert first.headers["authorization"] == "Bearer secret"
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]


@pytest.mark.parametrize("trouble", [cut, page(502, "Bad Gateway"), problem(503, "store_away", "later")])
async def test_a_submission_without_answer_is_repeated_with_the_same_key(
    runner: RunnerStub, client: RunnerClient, trouble: object
) -> None:
    runner.on("POST /api/v1/jobs", trouble, trouble, ACCEPTED)
    await client.submit(CAT, idempotency_key="mine")
    assert [call.headers["idempotency-key"] for call in runner.calls] == ["mine"] * 3


async def test_retries_are_bounded_with_growing_delays(
    runner: RunnerStub, client: RunnerClient, pauses: RecordedSleep
) -> None:
    runner.on("POST /api/v1/jobs", cut)
    with pytest.raises(BeaconUnreachable) as gone:
        await client.submit(CAT)
    assert len(runner.calls) == 5
    assert len(pauses.seconds) == 4
    assert pauses.seconds[0] < pauses.seconds[-1]
    assert runner.url in gone.value.detail
    assert "beacon up" in gone.value.what_to_do


async def test_retry_after_of_the_server_is_used(
    runner: RunnerStub, client: RunnerClient, pauses: RecordedSleep
) -> None:
    retry_soon = page(503, "busy", Retry_After="3")
    runner.on("GET /api/v1/jobs/job_a", retry_soon, page(503, "busy", Retry_After="3600"), job())
    await client.job("job_a")
    assert pauses.seconds == [3.0, 5.0]


@pytest.mark.parametrize(
    ("status", "code"), [(429, "rate_limited"), (422, "unknown_model"), (409, "idempotency_conflict")]
)
async def test_a_refusal_is_not_retried(
    runner: RunnerStub, client: RunnerClient, status: int, code: str
) -> None:
    runner.on("POST /api/v1/jobs", problem(status, code, "because"))
    with pytest.raises(BeaconError) as refused:
        await client.submit(CAT)
    assert len(runner.calls) == 1
    assert (refused.value.status, refused.value.code, refused.value.detail) == (status, code, "because")
    assert refused.value.what_to_do


@pytest.mark.parametrize("act", ["resume", "skip"])
async def test_a_call_that_may_have_taken_effect_is_not_repeated(
    runner: RunnerStub, client: RunnerClient, act: str
) -> None:
    runner.on(f"POST /api/v1/jobs/job_a/{act}", cut)
    with pytest.raises(BeaconUnreachable):
        await getattr(client, act)("job_a")
    assert len(runner.calls) == 1


async def test_a_call_that_cannot_have_arrived_is_repeated(pauses: RecordedSleep) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
    async with RunnerClient(address, "k", sleep=pauses) as client:
        with pytest.raises(BeaconUnreachable):
            await client.skip("job_a")
    assert len(pauses.seconds) == 4


async def test_an_invalid_job_is_refused_before_it_is_sent(runner: RunnerStub, client: RunnerClient) -> None:
    with pytest.raises(BeaconError) as refused:
        await client.submit(
            {"kind": "matrix", "questions": [{"id": "q1"}], "models": ["m"], "regions": ["US"]}
        )
    assert refused.value.status == 422
    assert [wrong.field for wrong in refused.value.problem.errors or ()] == ["questions[0].prompt"]
    assert runner.calls == []


async def test_a_batch_is_one_call(runner: RunnerStub, client: RunnerClient) -> None:
    runner.on("POST /api/v1/jobs/batch", {"jobs": [ACCEPTED, ACCEPTED | {"job_id": "job_b"}]})
    accepted = await client.submit_batch([CAT, CAT])
    assert [one.job_id for one in accepted] == ["job_a", "job_b"]
    (call,) = runner.calls
    assert len(orjson.loads(call.body)["jobs"]) == 2
    assert call.headers["idempotency-key"]


async def test_pages_of_jobs_are_fetched_on_demand(runner: RunnerStub, client: RunnerClient) -> None:
    runner.on(
        "GET /api/v1/jobs",
        {"jobs": [summary("job_1"), summary("job_2")], "next_cursor": "c2"},
        {"jobs": [], "next_cursor": "c3"},
        {"jobs": [summary("job_3")], "next_cursor": None},
    )
    listing = client.jobs(status=JobState.QUEUED, page_size=2)
    assert (await anext(listing)).job_id == "job_1"
    assert len(runner.calls) == 1
    assert [one.job_id async for one in listing] == ["job_2", "job_3"]
    assert [call.query for call in runner.calls] == [
        {"status": "queued", "limit": "2"},
        {"status": "queued", "limit": "2", "cursor": "c2"},
        {"status": "queued", "limit": "2", "cursor": "c3"},
    ]


async def test_actions_return_the_changed_job(runner: RunnerStub, client: RunnerClient) -> None:
    runner.on("POST /api/v1/jobs/job_a/cancel", {"whatever": True})
    runner.on("GET /api/v1/jobs/job_a", job(status="cancelled"))
    assert (await client.cancel("job_a")).status is JobState.CANCELLED


async def test_one_execution_is_retried_by_its_id(runner: RunnerStub, client: RunnerClient) -> None:
    runner.on("POST /api/v1/executions/exe_a.0.0/retry-question", {})
    runner.on("GET /api/v1/executions/exe_a.0.0", execution(state="completed", output="x"))
    assert (await client.retry_execution("exe_a.0.0")).output == "x"


async def test_past_events_are_returned_as_a_page(runner: RunnerStub, client: RunnerClient) -> None:
    event = {"seq": 4, "type": "JOB_QUEUED", "job_id": "job_a", "at": "2026-01-01T00:00:00Z", "data": {}}
    runner.on("GET /api/v1/jobs/job_a/events", {"events": [event], "more": True})
    found = await client.events("job_a", after=3)
    assert ([event.seq for event in found.events], found.more) == ([4], True)
    assert runner.calls[0].query == {"after": "3"}


async def test_an_id_stays_inside_its_path(runner: RunnerStub, client: RunnerClient) -> None:
    with pytest.raises(BeaconError) as refused:
        await client.job("../../admin/users?x=1")
    assert refused.value.status == 404
    assert runner.calls[0].path == "/api/v1/jobs/../../admin/users?x=1"  # decoded by the server; one segment


async def test_an_html_page_of_a_proxy_is_an_error_with_a_code(
    runner: RunnerStub, client: RunnerClient
) -> None:
    runner.on("GET /api/v1/me", page(418, "<html>teapot</html>"))
    with pytest.raises(BeaconError) as refused:
        await client.me()
    assert (refused.value.status, refused.value.code) == (418, "http_418")


def test_the_sync_client_does_the_same(served: RunnerStub) -> None:
    served.on("POST /api/v1/jobs", ACCEPTED)
    served.on("GET /api/v1/jobs", {"jobs": [summary("job_1"), summary("job_2")], "next_cursor": None})
    served.on("GET /api/v1/jobs/none", problem(404, "unknown_job", "no such job"))
    with Beacon(served.url, "secret") as beacon:
        assert beacon.submit(CAT).job_id == "job_a"
        assert [one.job_id for one in beacon.jobs()] == ["job_1", "job_2"]
        assert next(iter(beacon.jobs())).job_id == "job_1"
        with pytest.raises(BeaconError, match="no such job"):
            beacon.job("none")


def test_the_sync_client_watches_and_can_stop_early(served: RunnerStub) -> None:
    served.on("GET /api/v1/jobs/job_a/events", stream(event(1, "JOB_QUEUED"), event(2, "JOB_COMPLETE")))
    with Beacon(served.url, "secret") as beacon:
        assert [one.seq for one in beacon.watch("job_a")] == [1, 2]
        for one in beacon.watch("job_a"):
            assert one.seq == 1
            break


def test_the_sync_client_outside_a_with_block_explains_its_use() -> None:
    with pytest.raises(RuntimeError, match="with Beacon"):
        Beacon("http://127.0.0.1:1", "k").me()


EVENTS = "GET /api/v1/jobs/job_a/events"


async def test_waiting_for_a_failed_job_raises_it(runner: RunnerStub, client: RunnerClient) -> None:
    failure = {"code": "timeout", "stage": "run", "retryable": True, "message": "took too long"}
    runner.on(EVENTS, stream(event(1, "JOB_FAILED")))
    runner.on("GET /api/v1/jobs/job_a", job(status="failed", failure=failure))
    with pytest.raises(JobFailedError, match="took too long") as failed:
        await client.wait("job_a")
    assert failed.value.job.status is JobState.FAILED
    assert (await client.wait("job_a", check=False)).status is JobState.FAILED


async def test_waiting_ends_with_a_timeout_error(runner: RunnerStub, client: RunnerClient) -> None:
    runner.on(EVENTS, stream(event(1, "JOB_QUEUED"), stay=asyncio.Event()))
    with pytest.raises(WaitTimeoutError, match=r"job_a did not end within 0\.05 s") as raised:
        await client.wait("job_a", timeout=0.05)
    assert isinstance(raised.value, TimeoutError)


INTERRUPTED = """
import sys
from beacon_client import Beacon
with Beacon(sys.argv[1], "k") as beacon:
    for event in beacon.watch("job_a"):
        print(event.type, flush=True)
        beacon.wait("job_a")
"""


def test_ctrl_c_ends_the_sync_client(served: RunnerStub) -> None:
    served.on(EVENTS, stream(event(1, "JOB_QUEUED"), stay=asyncio.Event()))
    command = [sys.executable, "-c", INTERRUPTED, served.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"JOB_QUEUED"
        process.send_signal(signal.SIGINT)
        try:
            _out, err = process.communicate(timeout=10)
        finally:
            process.kill()
    assert b"KeyboardInterrupt" in err
