"""The runner's client over real sockets: what is repeated, what is not, and what an error says."""

import asyncio
import socket
from collections.abc import AsyncIterator

import orjson
import pytest
from structlog.contextvars import bound_contextvars

from beacon_client import Beacon, BeaconError, BeaconUnreachable, RunnerClient
from beacon_contracts.jobs import GenerationJob, JobState
from beacon_lifecycle.clock import SystemClock
from tests.integration.client.documents import ACCEPTED, execution, job, summary
from tests.integration.client.small_runner import (
    SmallRunner,
    cut,
    event,
    page,
    problem,
    small_runner,
    stream,
)

CAT = GenerationJob(kind="generation", model="flux", prompt="a cat")


class HastyClock(SystemClock):
    """Real time, except that nobody waits: pauses are noted and pass at once."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
async def runner() -> AsyncIterator[SmallRunner]:
    async with small_runner() as one:
        yield one


@pytest.fixture
def clock() -> HastyClock:
    return HastyClock()


@pytest.fixture
async def client(runner: SmallRunner, clock: HastyClock) -> AsyncIterator[RunnerClient]:
    async with RunnerClient(runner.url, "secret", clock) as one:
        yield one


async def test_a_submission_carries_the_key_and_a_fresh_idempotency_key(
    runner: SmallRunner, client: RunnerClient
) -> None:
    runner.on("POST /api/v1/jobs", ACCEPTED)
    with bound_contextvars(request_id="req-1"):
        accepted = await client.submit(CAT)
    await client.submit({"kind": "generation", "model": "flux", "prompt": "a cat"})
    first, second = runner.calls
    assert accepted.job_id == "job_a"
    assert GenerationJob.model_validate_json(first.body) == CAT
    assert first.body == second.body
    assert first.headers["authorization"] == "Bearer secret"
    assert first.headers["x-request-id"] == "req-1"
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]


@pytest.mark.parametrize("trouble", [cut, page(502, "Bad Gateway"), problem(503, "store_away", "later")])
async def test_a_submission_that_got_no_answer_is_repeated_with_the_same_key(
    runner: SmallRunner, client: RunnerClient, trouble: object
) -> None:
    runner.on("POST /api/v1/jobs", trouble, trouble, ACCEPTED)
    await client.submit(CAT, idempotency_key="mine")
    assert [call.headers["idempotency-key"] for call in runner.calls] == ["mine"] * 3


async def test_repetition_is_bounded_and_waits_longer_each_time(
    runner: SmallRunner, client: RunnerClient, clock: HastyClock
) -> None:
    runner.on("POST /api/v1/jobs", cut)
    with pytest.raises(BeaconUnreachable) as gone:
        await client.submit(CAT)
    assert len(runner.calls) == 5
    assert len(clock.pauses) == 4
    assert clock.pauses[0] < clock.pauses[-1]
    assert runner.url in gone.value.detail
    assert "beacon up" in gone.value.what_to_do


async def test_the_server_may_say_how_long_to_wait(
    runner: SmallRunner, client: RunnerClient, clock: HastyClock
) -> None:
    asked = page(503, "busy", Retry_After="3")
    runner.on("GET /api/v1/jobs/job_a", asked, page(503, "busy", Retry_After="3600"), job())
    await client.job("job_a")
    assert clock.pauses == [3.0, 5.0]


@pytest.mark.parametrize(
    ("status", "code"), [(429, "rate_limited"), (422, "unknown_model"), (409, "idempotency_conflict")]
)
async def test_a_refusal_is_not_repeated(
    runner: SmallRunner, client: RunnerClient, status: int, code: str
) -> None:
    runner.on("POST /api/v1/jobs", problem(status, code, "because"))
    with pytest.raises(BeaconError) as refused:
        await client.submit(CAT)
    assert len(runner.calls) == 1
    assert (refused.value.status, refused.value.code, refused.value.detail) == (status, code, "because")
    assert refused.value.what_to_do


@pytest.mark.parametrize("act", ["resume", "skip"])
async def test_what_may_have_happened_is_not_done_twice(
    runner: SmallRunner, client: RunnerClient, act: str
) -> None:
    runner.on(f"POST /api/v1/jobs/job_a/{act}", cut)
    with pytest.raises(BeaconUnreachable):
        await getattr(client, act)("job_a")
    assert len(runner.calls) == 1


async def test_what_cannot_have_arrived_is_tried_again(clock: HastyClock) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
    async with RunnerClient(address, "k", clock) as client:
        with pytest.raises(BeaconUnreachable):
            await client.skip("job_a")
    assert len(clock.pauses) == 4


async def test_a_wrong_job_is_refused_before_it_is_sent(runner: SmallRunner, client: RunnerClient) -> None:
    with pytest.raises(BeaconError) as refused:
        await client.submit(
            {"kind": "matrix", "questions": [{"id": "q1"}], "models": ["m"], "regions": ["US"]}
        )
    assert refused.value.status == 422
    assert [wrong.field for wrong in refused.value.problem.errors or ()] == ["questions[0].prompt"]
    assert runner.calls == []


async def test_a_batch_is_one_call(runner: SmallRunner, client: RunnerClient) -> None:
    runner.on("POST /api/v1/jobs/batch", {"jobs": [ACCEPTED, ACCEPTED | {"job_id": "job_b"}]})
    accepted = await client.submit_batch([CAT, CAT])
    assert [one.job_id for one in accepted] == ["job_a", "job_b"]
    (call,) = runner.calls
    assert len(orjson.loads(call.body)["jobs"]) == 2
    assert call.headers["idempotency-key"]


async def test_jobs_come_page_by_page_as_they_are_wanted(runner: SmallRunner, client: RunnerClient) -> None:
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


async def test_actions_answer_with_the_job_as_it_is_then(runner: SmallRunner, client: RunnerClient) -> None:
    runner.on("POST /api/v1/jobs/job_a/cancel", {"whatever": True})
    runner.on("GET /api/v1/jobs/job_a", job(status="cancelled"))
    assert (await client.cancel("job_a")).status is JobState.CANCELLED


async def test_one_execution_is_retried_by_its_own_name(runner: SmallRunner, client: RunnerClient) -> None:
    runner.on("POST /api/v1/executions/exe_a.0.0/retry-question", {})
    runner.on("GET /api/v1/executions/exe_a.0.0", execution(state="completed", output="x"))
    assert (await client.retry_execution("exe_a.0.0")).output == "x"


async def test_events_so_far_come_as_a_page(runner: SmallRunner, client: RunnerClient) -> None:
    told = {"seq": 4, "type": "JOB_QUEUED", "job_id": "job_a", "at": "2026-01-01T00:00:00Z", "data": {}}
    runner.on("GET /api/v1/jobs/job_a/events", {"events": [told], "more": True})
    found = await client.events("job_a", after=3)
    assert ([event.seq for event in found.events], found.more) == ([4], True)
    assert runner.calls[0].query == {"after": "3"}


async def test_an_id_stays_inside_its_path(runner: SmallRunner, client: RunnerClient) -> None:
    with pytest.raises(BeaconError) as refused:
        await client.job("../../admin/users?x=1")
    assert refused.value.status == 404
    assert runner.calls[0].path == "/api/v1/jobs/../../admin/users?x=1"  # decoded by the server; one segment


async def test_a_page_of_a_proxy_is_an_error_with_a_code(runner: SmallRunner, client: RunnerClient) -> None:
    runner.on("GET /api/v1/me", page(418, "<html>teapot</html>"))
    with pytest.raises(BeaconError) as refused:
        await client.me()
    assert (refused.value.status, refused.value.code) == (418, "http_418")


def test_the_sync_client_does_the_same(served: SmallRunner) -> None:
    served.on("POST /api/v1/jobs", ACCEPTED)
    served.on("GET /api/v1/jobs", {"jobs": [summary("job_1"), summary("job_2")], "next_cursor": None})
    served.on("GET /api/v1/jobs/none", problem(404, "unknown_job", "no such job"))
    with Beacon(served.url, "secret") as beacon:
        assert beacon.submit(CAT).job_id == "job_a"
        assert [one.job_id for one in beacon.jobs()] == ["job_1", "job_2"]
        assert next(iter(beacon.jobs())).job_id == "job_1"
        with pytest.raises(BeaconError, match="no such job"):
            beacon.job("none")


def test_the_sync_client_watches_and_may_stop_in_the_middle(served: SmallRunner) -> None:
    served.on("GET /api/v1/jobs/job_a/events", stream(event(1, "JOB_QUEUED"), event(2, "JOB_COMPLETE")))
    with Beacon(served.url, "secret") as beacon:
        assert [one.seq for one in beacon.watch("job_a")] == [1, 2]
        for one in beacon.watch("job_a"):
            assert one.seq == 1
            break


def test_the_sync_client_says_how_it_is_used() -> None:
    with pytest.raises(RuntimeError, match="with Beacon"):
        Beacon("http://127.0.0.1:1", "k").me()
