"""The guarantees of every implementation of shared limits: cap, order, leases, events."""

from beacon_router.limits import Token
from beacon_router.limits.port import LimitEventKind, SharedLimit, SlotLimiter
from tests.conformance.router.harness import GPU, Inbox, LimiterHarness, status_of
from tests.fixtures.waiting import until

A, B, C, D, E = (Token(name) for name in "ABCDE")


async def test_holders_never_exceed_the_cap(harness: LimiterHarness) -> None:
    limiter = await harness.process()

    status = await limiter.acquire(GPU, [A, B, C, D, E])

    assert status.held == {A, B, C}
    assert status.waiting == {D, E}
    assert status.wanted == 0


async def test_processes_share_the_cap(harness: LimiterHarness) -> None:
    first, second = await harness.process(), await harness.process()

    assert (await first.acquire(GPU, [A, B])).held == {A, B}
    status = await second.acquire(GPU, [C, D])

    assert status.held == {C}
    assert status.waiting == {D}
    assert (await first.renew(GPU, [A, B], [])).wanted == 1


async def test_tokens_beyond_a_smaller_cap_are_kept_and_wanted_back(harness: LimiterHarness) -> None:
    first, second = await harness.process(), await harness.process()
    smaller = SharedLimit(GPU.name, 1)
    await first.acquire(GPU, [A, B])
    await second.acquire(GPU, [C])

    status = await first.renew(smaller, [A, B], [])
    assert status.held == {A, B}
    assert status.wanted == 2
    await second.release(smaller, [C])
    assert (await first.renew(smaller, [A, B], [])).wanted == 1
    await first.release(smaller, [B])
    assert (await first.renew(smaller, [A], [])).wanted == 0


async def test_a_repeated_acquire_takes_no_second_slot(harness: LimiterHarness) -> None:
    limiter = await harness.process()
    await limiter.acquire(GPU, [A])
    await limiter.acquire(GPU, [A])

    assert (await limiter.acquire(GPU, [B, C, D])).held == {B, C}


async def test_free_slots_are_granted_in_queue_order(harness: LimiterHarness) -> None:
    limiter = await harness.process()
    await limiter.acquire(GPU, [A, B, C])
    for token in (D, E):
        await limiter.acquire(GPU, [token])

    await limiter.release(GPU, [B])
    assert (await limiter.renew(GPU, [], [D, E])).held == {D}

    await limiter.release(GPU, [A])
    assert (await limiter.renew(GPU, [], [D, E])).held == {D, E}


async def test_a_new_token_does_not_overtake_the_queue(harness: LimiterHarness) -> None:
    limiter = await harness.process()
    await limiter.acquire(GPU, [A, B, C])
    await limiter.acquire(GPU, [D])

    await limiter.release(GPU, [A])
    status = await limiter.acquire(GPU, [E])

    assert status.waiting == {E}


async def test_the_owner_of_a_granted_token_is_notified(harness: LimiterHarness) -> None:
    inbox = Inbox()
    limiter = await watching(harness, inbox)
    await limiter.acquire(GPU, [A, B, C])
    await limiter.acquire(GPU, [D])

    await limiter.release(GPU, [C])

    await inbox.until(lambda: D in inbox.granted())


async def test_holders_are_notified_of_a_new_token_in_the_queue(harness: LimiterHarness) -> None:
    inbox = Inbox()
    holder = await watching(harness, inbox)
    await holder.acquire(GPU, [A, B, C])

    other = await harness.process()
    await other.acquire(GPU, [D])

    await inbox.until(lambda: any(news.kind is LimitEventKind.WANTED for news in inbox.news))


async def test_a_release_counts_once(harness: LimiterHarness) -> None:
    limiter = await harness.process()
    await limiter.acquire(GPU, [A, B, C])

    assert await limiter.release(GPU, [A]) == 1
    assert (await limiter.acquire(GPU, [D])).held == {D}
    assert await limiter.release(GPU, [A]) == 0
    assert (await limiter.acquire(GPU, [E])).waiting == {E}


async def test_a_token_that_left_the_queue_is_not_granted(harness: LimiterHarness) -> None:
    limiter = await harness.process()
    await limiter.acquire(GPU, [A, B, C])
    await limiter.acquire(GPU, [D])
    await limiter.acquire(GPU, [E])

    assert await limiter.release(GPU, [D]) == 1
    await limiter.release(GPU, [A])

    assert (await status_of(limiter, E)).held == {E}


async def test_renewal_keeps_a_slot_past_its_lease(harness: LimiterHarness) -> None:
    limiter = await harness.process()
    await limiter.acquire(GPU, [A, B, C])
    await limiter.acquire(GPU, [D])

    for _ in range(8):
        await harness.pass_time(harness.lease_s / 4)
        status = await limiter.renew(GPU, [A, B, C], [D])
        assert status.held == {A, B, C}


async def test_the_slot_of_a_crashed_holder_is_free_after_its_lease(harness: LimiterHarness) -> None:
    crashed, alive = await harness.process(), await harness.process()
    await crashed.acquire(GPU, [A])
    await alive.acquire(GPU, [B, C, D])
    began = harness.clock.now()

    async def served() -> bool:
        await harness.pass_time(harness.lease_s / 10)
        return D in (await alive.renew(GPU, [B, C], [D])).held

    await until(served, "the waiter has the slot of the crashed holder")
    assert harness.clock.now() - began >= harness.lease_s * 0.8


async def test_a_waiting_token_gets_the_time_of_the_next_recheck(harness: LimiterHarness) -> None:
    limiter = await harness.process()
    await limiter.acquire(GPU, [A, B, C])

    status = await limiter.acquire(GPU, [D])

    assert status.recheck_in_s is not None
    assert 0 < status.recheck_in_s <= harness.lease_s
    assert (await limiter.release(GPU, [D])) == 1
    assert (await limiter.renew(GPU, [A, B, C], [])).recheck_in_s is None


async def test_a_crashed_waiter_loses_its_place(harness: LimiterHarness) -> None:
    crashed, alive = await harness.process(), await harness.process()
    await alive.acquire(GPU, [A, B, C])
    await crashed.acquire(GPU, [D])
    await alive.acquire(GPU, [E])

    async def forgotten() -> bool:
        await harness.pass_time(harness.lease_s / 4)
        return (await alive.renew(GPU, [A, B, C], [E])).wanted == 0

    await until(forgotten, "the crashed waiter is forgotten")
    await alive.release(GPU, [A])
    assert (await status_of(alive, E)).held == {E}


async def test_a_late_holder_does_not_exceed_the_cap(harness: LimiterHarness) -> None:
    late, alive = await harness.process(), await harness.process()
    await late.acquire(GPU, [A, B, C])
    await alive.acquire(GPU, [D, E])

    async def served() -> bool:
        await harness.pass_time(harness.lease_s / 4)
        return (await alive.renew(GPU, [], [D, E])).held == {D, E}

    await until(served, "both in line have slots")
    status = await late.renew(GPU, [A, B, C], [])

    assert len(status.held) == 1


async def test_limits_are_independent(harness: LimiterHarness) -> None:
    limiter = await harness.process()
    other = type(GPU)("model:image_gen", 1)

    assert (await limiter.acquire(GPU, [A, B, C])).held == {A, B, C}
    assert (await limiter.acquire(other, [D])).held == {D}


async def watching(harness: LimiterHarness, inbox: Inbox) -> SlotLimiter:
    limiter = await harness.process()
    limiter.watch(GPU.name, inbox)
    return limiter
