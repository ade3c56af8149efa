"""Position and wait of every live job in each queue, and the events of their changes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from beacon_config import LiveConfig
from beacon_contracts.ids import USER, decode_job_id, encode_execution_id, encode_id
from beacon_contracts.inference import EtaView, InferenceState, InferenceView
from beacon_contracts.router_status import ModelForecast, QueueStatus, RegionStatus
from beacon_redis import RedisAddress
from beacon_runner.application.position_events import PositionEvents
from beacon_runner.application.queue_position import PositionService
from beacon_runner.application.wait_estimator import WaitEstimator
from beacon_runner.ports.router import RouterStatus
from beacon_runner.redis_queue import Layout, RedisQueueAdmin
from tests.fixtures.waiting import until
from tests.integration.runner_api.harness import CONFIG, GENERATION, MATRIX, ApiHarness, Caller

SONG = {"kind": "generation", "model": "music", "prompt": "a song", "region": "US"}


def forecast_of(model: str, wait_s: float, **more: Any) -> RouterStatus:
    region = RegionStatus(
        region="US",
        concurrency=4,
        main=0,
        front=0,
        retry=0,
        completed=0,
        failed=0,
        cancelled=0,
        forecast={model: ModelForecast(wait_s=dict.fromkeys(CONFIG.tiers, wait_s), pace_s=0.5)},
        slots=4,
        busy=4,
        healthy=True,
        **more,
    )
    queues = QueueStatus(
        regions={"US": region}, global_retry=0, backing_off=0, waiting=0, running=0, held_bytes=0
    )
    return RouterStatus("http://router", 0, queues)


def stands(job_id: str, state: InferenceState, ordinal: int = 0, **more: Any) -> tuple[str, InferenceView]:
    name = encode_execution_id(decode_job_id(job_id), 0, ordinal)
    view = InferenceView(request_id=name, state=state, model="music", requested_region="US", fence=1, **more)
    return name, view


async def numbers(caller: Caller, job_id: str) -> tuple[Any, Any]:
    job, why = await caller.job(job_id), await caller.get(f"/api/v1/jobs/{job_id}/why")
    assert (job["position"], job["estimated_wait_s"]) == (why["position"], why["estimated_wait_s"])
    return job["position"], job["estimated_wait_s"]


async def shown(caller: Caller, job_id: str, position: int | None, wait_s: float | None) -> None:
    """Snapshots are refreshed in the background, so a change is visible a little later."""

    async def reported() -> bool:
        looks = await caller.job(job_id), await caller.get(f"/api/v1/jobs/{job_id}/why")
        return all((look["position"], look["estimated_wait_s"]) == (position, wait_s) for look in looks)

    await until(reported, f"{job_id} has position {position} and wait {wait_s}")


async def test_the_wait_covers_the_lane_and_the_router(api: ApiHarness) -> None:
    anna = await api.user(tier="creator")
    jobs = [await anna.submit(SONG) for _ in range(5)]
    await api.publish()
    await api.clock.advance(3)
    await shown(anna, jobs[0], 1, None)
    assert (await anna.job(jobs[0]))["no_estimate_reason"] == "no router answers"
    api.router.statuses = [forecast_of("music", 7.5)]
    await api.clock.advance(16)
    await shown(anna, jobs[0], 1, 7.5)
    await shown(anna, jobs[4], 5, 9.5)  # four more starts at the router's pace
    api.router.statuses = [forecast_of("flux", 1.0)]
    await api.clock.advance(3)
    await shown(anna, jobs[4], 5, None)
    assert (await anna.job(jobs[4]))["no_estimate_reason"] == "no backend can run music in US now"


async def test_the_response_to_a_submission_has_the_same_wait(api: ApiHarness) -> None:
    anna = await api.user(tier="creator")
    api.router.statuses = [forecast_of("music", 7.5)]
    for _ in range(5):
        await anna.submit(SONG)
    await api.publish()
    await api.clock.advance(3)
    accepted = await anna.post("/api/v1/jobs", SONG, 202)
    assert (accepted["position"], accepted["estimated_wait_s"]) == (6, 10.0)


async def test_quick_submissions_have_different_positions(api: ApiHarness) -> None:
    anna = await api.user(tier="creator")
    api.router.statuses = [forecast_of("music", 7.5)]
    answers = [await anna.post("/api/v1/jobs", SONG, 202) for _ in range(5)]
    assert [one["position"] for one in answers] == [1, 2, 3, 4, 5]
    assert [one["estimated_wait_s"] for one in answers] == [7.5, 8.0, 8.5, 9.0, 9.5]


async def test_jobs_on_their_way_to_a_router_are_ahead(api: ApiHarness) -> None:
    """A worker has claimed them, and no router has them yet."""
    anna = await api.user(tier="creator")
    for _ in range(3):
        await anna.submit(SONG)
    await api.claim(3)
    api.router.statuses = [forecast_of("music", 7.5)]
    await api.clock.advance(1.5)
    assert await _next_position(anna) == 4


async def test_jobs_that_a_router_has_are_not_on_their_way(api: ApiHarness) -> None:
    anna = await api.user(tier="creator")
    for _ in range(3):
        await anna.submit(SONG)
    claimed = await api.claim(3)
    user = encode_id(USER, claimed[0].user)
    api.router.statuses = [forecast_of("music", 7.5, requests_by_user={user: 2})]
    await api.clock.advance(1.5)
    assert await _next_position(anna) == 2


async def test_jobs_claimed_long_ago_are_not_on_their_way(api: ApiHarness) -> None:
    """They may have ended at their router."""
    anna = await api.user(tier="creator")
    for _ in range(3):
        await anna.submit(SONG)
    await api.claim(3)
    api.router.statuses = [forecast_of("music", 7.5)]
    await api.clock.advance(3)
    assert await _next_position(anna) == 1


async def test_jobs_accepted_while_routers_are_read_are_ahead_afterwards(api: ApiHarness) -> None:
    anna = await api.user(tier="creator")
    api.router.statuses = [forecast_of("music", 7.5)]
    assert await _next_position(anna) == 1
    await api.publish()
    answers = api.router.answers = asyncio.Event()
    await api.clock.advance(0.3)
    assert [await _next_position(anna) for _ in range(3)] == [2, 3, 4]
    answers.set()
    assert await _next_position(anna) == 5


async def test_jobs_at_a_router_are_ahead_while_nothing_can_run(api: ApiHarness) -> None:
    anna = await api.user(tier="creator")
    api.router.statuses = [forecast_of("flux", 1.0, by_tier={"creator": 6})]
    accepted = await anna.post("/api/v1/jobs", SONG, 202)
    assert (accepted["position"], accepted["estimated_wait_s"]) == (7, None)


async def _next_position(caller: Caller) -> Any:
    return (await caller.post("/api/v1/jobs", SONG, 202))["position"]


async def test_without_redis_there_is_no_estimate(api: ApiHarness) -> None:
    anna = await api.user(tier="creator")
    job_id = await anna.submit(SONG)
    await api.publish()
    await api.redis.set("jobs:live", "not a hash")
    job = await anna.job(job_id)
    assert (job["position"], job["estimated_wait_s"]) == (None, None)
    assert "Redis" in job["no_estimate_reason"]


async def test_the_position_at_the_router_is_the_routers(api: ApiHarness) -> None:
    anna = await api.user(tier="creator")
    job_id = await anna.submit(SONG)
    await api.claim()
    eta = EtaView(p50_s=12.0, p90_s=20.0)
    api.router.known = dict([stands(job_id, InferenceState.QUEUED, position=3, eta=eta, waiting_for="us-1")])
    assert await numbers(anna, job_id) == (3, 12)
    why = await anna.get(f"/api/v1/jobs/{job_id}/why")
    assert why["summary"] == "1 of its executions wait at the router for a GPU."
    assert why["reasons"] == ["music in US: us-1"]
    assert why["executions"][0]["position"] == 3

    api.router.known = dict([stands(job_id, InferenceState.RUNNING)])
    assert await numbers(anna, job_id) == (None, 0)
    api.router.known = {}
    assert await numbers(anna, job_id) == (None, None)


async def test_a_matrix_with_a_running_execution_does_not_wait(api: ApiHarness) -> None:
    anna = await api.user(tier="creator")
    job_id = await anna.submit(MATRIX)
    await api.claim()
    waits = {"eta": EtaView(p50_s=9.0, p90_s=9.0)}
    api.router.known = dict(
        [
            stands(job_id, InferenceState.QUEUED, 0, position=5, **waits),
            stands(job_id, InferenceState.QUEUED, 1, position=2, **waits),
        ]
    )
    assert await numbers(anna, job_id) == (2, 9)
    api.router.known |= dict([stands(job_id, InferenceState.WARMING, 2)])
    assert await numbers(anna, job_id) == (None, 0)


async def test_a_job_of_a_paused_class_has_a_position_but_no_wait(api: ApiHarness, admin: Caller) -> None:
    anna = await api.user(tier="creator")
    job_id = await anna.submit(SONG)
    await api.publish()
    await admin.post("/admin/queues/high/pause")
    await api.clock.advance(3)
    await shown(anna, job_id, 1, None)
    api.router.statuses = [forecast_of("music", 7.5)]
    await api.clock.advance(16)
    await until(lambda: reason_of(anna, job_id, "class high is paused"), "the reason is reported")


async def reason_of(caller: Caller, job_id: str, reason: str) -> bool:
    return bool((await caller.job(job_id))["no_estimate_reason"] == reason)


@pytest.fixture
async def positions(api: ApiHarness, redis_url: str) -> AsyncIterator[PositionEvents]:
    redis = RedisAddress(redis_url).open()
    queue_admin = RedisQueueAdmin(redis, Layout.of(CONFIG, cluster=False))
    estimator = WaitEstimator(queue_admin, api.router, LiveConfig(CONFIG), api.clock)
    yield PositionEvents(
        PositionService(estimator, api.router, api.store.queries, api.clock), api.store.commands, api.clock
    )
    await estimator.close()
    await redis.aclose()


async def waiting_events(caller: Caller, job_id: str) -> list[tuple[str, Any]]:
    events = (await caller.get(f"/api/v1/jobs/{job_id}/events"))["events"]
    return [(event["type"], event["data"].get("position")) for event in events[1:]]


async def test_a_watched_job_gets_events_of_its_position(api: ApiHarness, positions: PositionEvents) -> None:
    anna = await api.user(tier="creator")
    before, job_id = await anna.submit(GENERATION), await anna.submit(SONG)
    await api.publish()

    async def look() -> bool:
        return await positions.update(await api.store.job(decode_job_id(job_id)))

    assert await look()
    assert not await look(), "not again at once"
    await api.clock.advance(4)
    assert not await look(), "nothing has changed"
    assert await api.run("done") == decode_job_id(before)
    await api.clock.advance(4)
    assert await look()
    assert await waiting_events(anna, job_id) == [("QUEUE_POSITION", 2), ("QUEUE_POSITION", 1)]

    (claimed,) = await api.claim()
    eta = EtaView(p50_s=1.0, p90_s=2.0)
    api.router.known = dict([stands(job_id, InferenceState.QUEUED, position=1, eta=eta)])
    await api.clock.advance(4)
    assert await look()
    await api.store.run(claimed, "a song")
    await api.clock.advance(4)
    assert not await look()
    assert await waiting_events(anna, job_id) == [
        ("QUEUE_POSITION", 2),
        ("QUEUE_POSITION", 1),
        ("WAITING", 1),
        ("EXECUTION_START", None),
        ("EXECUTION_COMPLETE", None),
        ("JOB_COMPLETE", None),
    ]


async def test_two_watching_processes_store_one_position_event(
    api: ApiHarness, positions: PositionEvents
) -> None:
    anna = await api.user(tier="creator")
    job_id = await anna.submit(SONG)
    await api.publish()
    record = await api.store.job(decode_job_id(job_id))
    other = PositionEvents(positions.positions, positions.commands, api.clock)
    assert [await positions.update(record), await other.update(record)] == [True, False]
    assert await waiting_events(anna, job_id) == [("QUEUE_POSITION", 1)]
