"""Limits on a user's requests: exact for all processes, and bounded after every loss."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.asyncio import RedisCluster

from beacon_contracts.ids import UserId, new_uuid
from beacon_lifecycle import ManualClock
from beacon_redis import RedisAddress
from beacon_runner.domain.limits.request_quota import Admitted, Refused, RequestLimit, RequestQuota
from beacon_runner.redis_queue import scripts
from beacon_runner.redis_queue.request_limits import RedisRequestLimits
from beacon_runner.redis_queue.scripts import Operation
from tests.conformance.runner_queue.harness import QueueHarness
from tests.fixtures.waiting import until

ANNA, BEN = UserId(new_uuid()), UserId(new_uuid())
FOUR = RequestQuota(concurrent_requests=4)
TEN_PER_MINUTE = RequestQuota(requests_per_minute=10)
STARTED = f"limits:{{{ANNA.hex}}}:requests:started"
YEAR_2100_MS = 4_102_444_800_000  # written before the clock was set back
RUNNING = f"limits:{{{ANNA.hex}}}:requests:running"


class Processes:
    """API processes on one Redis. Their clocks do not move."""

    def __init__(self, harness: QueueHarness) -> None:
        self.redis = harness.redis
        self.clock = ManualClock()
        self.all: list[RedisRequestLimits] = []

    def start(self, *, lease_s: float = 60.0, window_s: float = 60.0) -> RedisRequestLimits:
        self.all.append(
            RedisRequestLimits("requests", self.redis, self.clock, lease_s=lease_s, window_s=window_s)
        )
        return self.all[-1]

    async def flush(self) -> None:
        if isinstance(self.redis, RedisCluster):
            await self.redis.flushall(target_nodes=RedisCluster.PRIMARIES)
        else:
            await self.redis.flushdb()


@pytest.fixture
async def processes(harness: QueueHarness) -> AsyncIterator[Processes]:
    async with AsyncExitStack() as stack:
        made = Processes(harness)
        yield made
        for one in made.all:
            stack.push_async_callback(one.close)


async def fill(
    limits: RedisRequestLimits, quota: RequestQuota, count: int, user: UserId = ANNA
) -> list[Admitted]:
    answers = [await limits.admit(user, quota, str(new_uuid())) for _ in range(count)]
    assert all(isinstance(answer, Admitted) for answer in answers)
    return [answer for answer in answers if isinstance(answer, Admitted)]


async def admitted_of(limits: Sequence[RedisRequestLimits], quota: RequestQuota) -> list[Admitted]:
    answers = await asyncio.gather(*(one.admit(ANNA, quota, str(new_uuid())) for one in limits))
    return [answer for answer in answers if isinstance(answer, Admitted)]


@pytest.mark.parametrize("quota", [FOUR, RequestQuota(requests_per_minute=4)])
async def test_one_of_fifty_concurrent_requests_gets_the_last_slot(
    processes: Processes, quota: RequestQuota
) -> None:
    one, two, three = (processes.start() for _ in range(3))
    await fill(one, quota, 1)
    await fill(two, quota, 2)
    assert len(await admitted_of([one, two, three, two, three] * 10, quota)) == 1
    use = await one.use(ANNA, quota)
    assert max(use.started, use.running) == 4
    await fill(one, quota, 1, BEN)  # another user has limits of its own


async def test_a_refusal_counts_nothing_and_names_the_limit(processes: Processes) -> None:
    one, two = processes.start(), processes.start()
    quota = RequestQuota(requests_per_minute=10, concurrent_requests=2)
    first, second = await fill(one, quota, 2)
    assert (second.requests_per_minute.limit, second.requests_per_minute.remaining) == (10, 8)
    assert (second.concurrent_requests.limit, second.concurrent_requests.remaining) == (2, 0)
    for limits in (one, two):
        refusal = await limits.admit(ANNA, quota, str(new_uuid()))
        assert isinstance(refusal, Refused)
        assert (refusal.reached, refusal.retry_after_s) == (RequestLimit.CONCURRENT_REQUESTS, 1.0)
        assert refusal.requests_per_minute.remaining == 8
    await one.release(first)
    (third,) = await fill(two, quota, 1)
    assert third.requests_per_minute.remaining == 7


async def test_a_minute_frees_its_requests_in_the_order_of_their_start(processes: Processes) -> None:
    one, two = (processes.start(window_s=0.4) for _ in range(2))
    await fill(one, TEN_PER_MINUTE, 10)
    refusal = await two.admit(ANNA, TEN_PER_MINUTE, "late")
    assert isinstance(refusal, Refused)
    assert refusal.reached is RequestLimit.REQUESTS_PER_MINUTE
    assert refusal.requests_per_minute.reset_s is not None
    assert 0 <= refusal.retry_after_s <= refusal.requests_per_minute.reset_s <= 0.4

    async def admitted() -> bool:
        return isinstance(await two.admit(ANNA, TEN_PER_MINUTE, str(new_uuid())), Admitted)

    await until(admitted, "the first requests are older than the window")


async def test_a_release_frees_one_slot_however_often_it_is_repeated(processes: Processes) -> None:
    one, two = processes.start(), processes.start()
    first, *_ = await fill(one, FOUR, 4)
    await asyncio.gather(*(one.release(first) for _ in range(3)))
    await one.release(first)
    assert len(await admitted_of([two] * 8, FOUR)) == 1


async def test_a_dead_process_loses_its_share_after_its_lease(processes: Processes) -> None:
    dead, alive = processes.start(lease_s=0.2), processes.start()
    await fill(dead, FOUR, 4)

    async def admitted() -> bool:
        return bool(await admitted_of([alive], FOUR))

    await until(admitted, "the leases have expired")


async def test_renewal_keeps_a_share_and_restores_lost_tokens(processes: Processes) -> None:
    one, two = processes.start(), processes.start()
    held = await fill(one, FOUR, 3)
    await processes.flush()
    assert (await one.use(ANNA, FOUR)).running == 0
    assert (await one.renew()).count == 1
    assert (await two.use(ANNA, FOUR)).running == 3
    for admission in held:
        await one.release(admission)
    assert (await one.renew()).count == 0
    assert (await two.use(ANNA, FOUR)).running == 0


async def test_a_process_keeps_to_its_own_count_after_redis_was_emptied(processes: Processes) -> None:
    one, two = processes.start(), processes.start()
    await fill(one, FOUR, 3)
    await processes.flush()
    assert len(await admitted_of([one] * 8, FOUR)) == 1  # and restores its others
    assert await admitted_of([two] * 8, FOUR) == []


async def test_concurrent_requests_cost_one_call_each(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are still being admitted are not taken for lost ones."""
    one, calls, run = processes.start(), Counter[Operation](), scripts.run

    async def counted(redis: Any, operation: Operation, *arguments: Any) -> Any:
        calls[operation] += 1
        return await run(redis, operation, *arguments)

    monkeypatch.setattr(scripts, "run", counted)
    quota = RequestQuota(concurrent_requests=100)
    assert len(await admitted_of([one] * 50, quota)) == 50
    assert calls == {Operation.ADMIT_REQUEST: 50}


async def test_both_limits_hold_when_the_server_clock_is_set_back(processes: Processes) -> None:
    one = processes.start()
    quota = RequestQuota(requests_per_minute=10, concurrent_requests=4)
    for key, count in ((STARTED, 9), (RUNNING, 3)):
        await processes.redis.zadd(key, {f"old-{number}": YEAR_2100_MS for number in range(count)})
    (last,) = await fill(one, quota, 1)
    assert (last.requests_per_minute.remaining, last.concurrent_requests.remaining) == (0, 0)
    reset_s = last.requests_per_minute.reset_s
    assert reset_s is not None
    assert reset_s <= 60.0
    assert await processes.redis.zcount(RUNNING, YEAR_2100_MS, "+inf") == 0


async def test_an_idle_user_leaves_nothing_behind(harness: QueueHarness, processes: Processes) -> None:
    one = processes.start(window_s=0.05)
    quota = RequestQuota(requests_per_minute=10, concurrent_requests=4)
    for admission in await fill(one, quota, 4):
        await one.release(admission)

    async def gone() -> bool:
        return not await harness.redis.exists(STARTED) and not await harness.redis.exists(RUNNING)

    await until(gone, "the keys have expired")


async def test_each_process_applies_the_limits_alone_without_redis() -> None:
    clock = ManualClock()
    async with RedisAddress("redis://127.0.0.1:1").open() as nowhere:
        limits = RedisRequestLimits("requests", nowhere, clock)
        quota = RequestQuota(requests_per_minute=10, concurrent_requests=4)
        first, *_ = await admitted_of([limits] * 50, quota)
        assert (await limits.use(ANNA, quota)).running == 4
        await limits.release(first)
        assert len(await admitted_of([limits] * 50, quota)) == 1
        await clock.advance(61.0)
        assert (await limits.use(ANNA, quota)).started == 0
        await limits.close()


async def test_a_cancelled_admission_does_not_count(processes: Processes) -> None:
    """Cancelled at each of its first steps; redis-py completes the call after some of them."""
    one, two = processes.start(), processes.start()
    quota = RequestQuota(requests_per_minute=100, concurrent_requests=100)
    outcomes: list[object] = []
    for steps in range(16):
        admission = asyncio.ensure_future(one.admit(ANNA, quota, str(new_uuid())))
        for _ in range(steps):
            await asyncio.sleep(0)
        admission.cancel()
        outcomes += await asyncio.gather(admission, return_exceptions=True)
    counted = sum(isinstance(outcome, Admitted) for outcome in outcomes)
    assert counted < len(outcomes)
    use = await two.use(ANNA, quota)
    assert (use.started, use.running) == (counted, counted)
