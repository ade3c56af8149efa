"""A priority service that answers, fails, answers nonsense or hangs: submissions continue."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from beacon_contracts.ids import UserId, new_uuid
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import ManualClock
from beacon_runner.priority_client import PriorityService, PriorityTimeouts
from beacon_telemetry import new_registry
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until
from tests.integration.runner_api.harness import GENERATION, api_harness

HIGH, MEDIUM, LOW = JobClass
NO_HURRY = PriorityTimeouts(submission_s=WAIT_TIMEOUT_S, request_s=WAIT_TIMEOUT_S)
GARBAGE = [b"", b"high", b"{}", b'{"priority": "urgent"}', b'{"priority": 1}', b"[" * 5_000, b"\xff\xfe"]


@dataclass
class SmallService:
    """Answers with `status` and `body`; while it hangs, not before it is released."""

    port: int = 0
    status: int = 200
    body: bytes = b'{"priority": "high"}'
    requested: list[str] = field(default_factory=list)
    free: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            self.requested.append(request.split()[1].decode())
            self.asked.set()
            await self.free.wait()
            head = (
                f"HTTP/1.1 {self.status} x\r\ncontent-length: {len(self.body)}\r\nconnection: close\r\n\r\n"
            )
            writer.write(head.encode() + self.body)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def small() -> AsyncIterator[SmallService]:
    service = SmallService()
    service.free.set()
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    service.port = server.sockets[0].getsockname()[1]
    yield service
    service.free.set()
    server.close()


@asynccontextmanager
async def asking(
    url: str,
    clock: ManualClock,
    timeouts: PriorityTimeouts | None = None,
    registry: CollectorRegistry | None = None,
) -> AsyncIterator[PriorityService]:
    service = PriorityService(url, clock, registry or new_registry(), timeouts=timeouts or NO_HURRY)
    try:
        yield service
    finally:
        await service.close()


def failures(registry: CollectorRegistry) -> float:
    return registry.get_sample_value("beacon_runner_priority_lookups_total", {"outcome": "failed"}) or 0.0


def new_user() -> UserId:
    return UserId(new_uuid())


async def becomes(priorities: PriorityService, user: UserId, wanted: JobClass) -> None:
    async def is_so() -> bool:
        return await priorities.class_of(user, MEDIUM) is wanted

    await until(is_so, f"the class is {wanted}")


async def answers_after_a_wait(priorities: PriorityService) -> bool:
    """Whether a submission waits for the service, after one turn of the loop."""
    lookup = asyncio.ensure_future(priorities.class_of(new_user(), HIGH))
    await asyncio.sleep(0)
    waits = not lookup.done()
    await lookup
    return waits


async def test_the_service_decides_the_class_and_the_answer_is_cached(small: SmallService) -> None:
    async with asking(small.url, ManualClock()) as priorities:
        user = new_user()
        assert await priorities.class_of(user, LOW) is HIGH
        assert await priorities.class_of(user, LOW) is HIGH
        assert len(small.requested) == 1
        assert small.requested[0].startswith("/users/user_")
        assert small.requested[0].endswith("/priority")


async def test_concurrent_submissions_share_one_lookup(small: SmallService) -> None:
    async with asking(small.url, ManualClock()) as priorities:
        user = new_user()
        assert await asyncio.gather(*(priorities.class_of(user, LOW) for _ in range(20))) == [HIGH] * 20
        assert len(small.requested) == 1


async def test_an_old_answer_is_used_while_it_is_refreshed(small: SmallService) -> None:
    clock = ManualClock()
    async with asking(small.url, clock) as priorities:
        user = new_user()
        assert await priorities.class_of(user, MEDIUM) is HIGH
        await clock.advance(61)
        small.body = b'{"priority": "low"}'
        small.asked.clear()
        assert await priorities.class_of(user, MEDIUM) is HIGH
        await small.asked.wait()
        await becomes(priorities, user, LOW)


@pytest.mark.parametrize("body", GARBAGE)
async def test_an_invalid_answer_gives_the_medium_class(small: SmallService, body: bytes) -> None:
    small.body = body
    async with asking(small.url, ManualClock()) as priorities:
        assert await priorities.class_of(new_user(), HIGH) is MEDIUM


@pytest.mark.parametrize("status", [301, 404, 429, 500, 503])
async def test_an_error_status_gives_the_medium_class(small: SmallService, status: int) -> None:
    small.status = status
    async with asking(small.url, ManualClock()) as priorities:
        assert await priorities.class_of(new_user(), HIGH) is MEDIUM


async def test_an_unreachable_service_gives_the_medium_class() -> None:
    async with asking("http://127.0.0.1:9", ManualClock()) as priorities:
        assert await priorities.class_of(new_user(), HIGH) is MEDIUM


async def test_the_breaker_opens_for_a_dead_service_and_closes_again(small: SmallService) -> None:
    clock = ManualClock()
    small.status = 500
    async with asking(small.url, clock) as priorities:
        for _ in range(10):
            assert await priorities.class_of(new_user(), LOW) is MEDIUM
        assert len(small.requested) == 3
        small.status = 200
        assert await priorities.class_of(new_user(), LOW) is MEDIUM
        assert len(small.requested) == 3, "still resting"
        await clock.advance(11)
        user = new_user()
        await becomes(priorities, user, HIGH)
        assert await priorities.class_of(new_user(), LOW) is HIGH


async def test_after_a_timeout_no_submission_waits_for_the_service(small: SmallService) -> None:
    small.free.clear()
    timeouts, registry = PriorityTimeouts(submission_s=0.02, request_s=0.05), new_registry()
    async with asking(small.url, ManualClock(), timeouts, registry) as priorities:
        await asyncio.gather(*(priorities.class_of(new_user(), HIGH) for _ in range(3)))
        await until(lambda: failures(registry) == 3, "three questions have failed")
        classes = await asyncio.gather(*(priorities.class_of(new_user(), HIGH) for _ in range(1_000)))
        assert set(classes) == {MEDIUM}
        assert not await answers_after_a_wait(priorities)
        assert failures(registry) == 3
        # On a busy machine a question may be given up before the service has asked it.
        assert len(small.requested) <= 3, "the breaker is open"


async def test_no_submission_waits_while_another_lookup_is_overdue(small: SmallService) -> None:
    small.free.clear()
    timeouts = PriorityTimeouts(submission_s=0.01, request_s=600)
    async with asking(small.url, ManualClock(), timeouts) as priorities:
        user = new_user()
        assert await priorities.class_of(user, HIGH) is MEDIUM
        assert not await answers_after_a_wait(priorities)
        small.free.set()
        await becomes(priorities, user, HIGH)


async def test_an_invalid_submission_causes_no_lookup(
    database_url: str, redis_url: str, small: SmallService
) -> None:
    unknown = {**GENERATION, "model": "unknown-model"}
    too_long = {**GENERATION, "duration": 31}  # for the free tier
    priorities = PriorityService(small.url, ManualClock(), new_registry(), timeouts=NO_HURRY)
    async with api_harness(database_url, redis_url, priorities=priorities) as api:
        anna = await api.user(tier="free")
        for body in (unknown, too_long):
            await anna.post("/api/v1/jobs", body, 422)
            await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION, body]}, 422)
        await anna.post("/api/v1/jobs/batch", {"jobs": [GENERATION]}, 422, **{"idempotency-key": "x" * 201})
        assert small.requested == []


async def test_submissions_get_the_class_of_the_service(
    database_url: str, redis_url: str, small: SmallService
) -> None:
    unhurried = PriorityTimeouts(submission_s=3, request_s=WAIT_TIMEOUT_S)
    priorities = PriorityService(small.url, ManualClock(), new_registry(), timeouts=unhurried)
    async with api_harness(database_url, redis_url, priorities=priorities) as api:
        anna = await api.user(tier="free")
        job = await anna.job(await anna.submit(GENERATION))
        assert (job["tier"], job["priority"]) == ("free", "high")
        assert (await anna.get("/api/v1/me"))["priority"] == "high"
        small.free.clear()
        bert = await api.user("bert", "free")
        job_id = await bert.submit(GENERATION)
        assert (await bert.job(job_id))["priority"] == "medium"
