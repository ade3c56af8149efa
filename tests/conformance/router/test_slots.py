"""What a shared limit promises, whoever keeps it: cap, order, leases, news."""

from beacon_router.limits import Token
from beacon_router.limits.port import NewsKind, SlotLimiter
from tests.conformance.router.bed import GPU, Inbox, LimiterBed, standing_of
from tests.fixtures.waiting import until

A, B, C, D, E = (Token(name) for name in "ABCDE")


async def test_only_as_many_hold_a_slot_as_the_cap_allows(bed: LimiterBed) -> None:
    limiter = await bed.process()

    standing = await limiter.acquire(GPU, [A, B, C, D, E])

    assert standing.held == {A, B, C}
    assert standing.waiting == {D, E}
    assert standing.others_waiting == 0


async def test_processes_share_the_cap(bed: LimiterBed) -> None:
    first, second = await bed.process(), await bed.process()

    assert (await first.acquire(GPU, [A, B])).held == {A, B}
    standing = await second.acquire(GPU, [C, D])

    assert standing.held == {C}
    assert standing.waiting == {D}
    assert (await first.renew(GPU, [A, B], [])).others_waiting == 1


async def test_asking_again_takes_no_second_slot(bed: LimiterBed) -> None:
    limiter = await bed.process()
    await limiter.acquire(GPU, [A])
    await limiter.acquire(GPU, [A])

    assert (await limiter.acquire(GPU, [B, C, D])).held == {B, C}


async def test_free_slots_go_to_those_in_line_in_the_order_they_came(bed: LimiterBed) -> None:
    limiter = await bed.process()
    await limiter.acquire(GPU, [A, B, C])
    for token in (D, E):
        await limiter.acquire(GPU, [token])

    await limiter.release(GPU, [B])
    assert (await limiter.renew(GPU, [], [D, E])).held == {D}

    await limiter.release(GPU, [A])
    assert (await limiter.renew(GPU, [], [D, E])).held == {D, E}


async def test_nobody_overtakes_the_line(bed: LimiterBed) -> None:
    limiter = await bed.process()
    await limiter.acquire(GPU, [A, B, C])
    await limiter.acquire(GPU, [D])

    await limiter.release(GPU, [A])
    standing = await limiter.acquire(GPU, [E])

    assert standing.waiting == {E}


async def test_those_in_line_are_told_by_name(bed: LimiterBed) -> None:
    inbox = Inbox()
    limiter = await watching(bed, inbox)
    await limiter.acquire(GPU, [A, B, C])
    await limiter.acquire(GPU, [D])

    await limiter.release(GPU, [C])

    await inbox.until(lambda: D in inbox.granted())


async def test_holders_are_told_when_somebody_joins_the_line(bed: LimiterBed) -> None:
    inbox = Inbox()
    holder = await watching(bed, inbox)
    await holder.acquire(GPU, [A, B, C])

    other = await bed.process()
    await other.acquire(GPU, [D])

    await inbox.until(lambda: any(news.kind is NewsKind.WANTED for news in inbox.news))


async def test_a_release_counts_once(bed: LimiterBed) -> None:
    limiter = await bed.process()
    await limiter.acquire(GPU, [A, B, C])

    assert await limiter.release(GPU, [A]) == 1
    assert (await limiter.acquire(GPU, [D])).held == {D}
    assert await limiter.release(GPU, [A]) == 0
    assert (await limiter.acquire(GPU, [E])).waiting == {E}


async def test_one_who_leaves_the_line_is_not_served(bed: LimiterBed) -> None:
    limiter = await bed.process()
    await limiter.acquire(GPU, [A, B, C])
    await limiter.acquire(GPU, [D])
    await limiter.acquire(GPU, [E])

    assert await limiter.release(GPU, [D]) == 1
    await limiter.release(GPU, [A])

    assert (await standing_of(limiter, E)).held == {E}


async def test_renewal_keeps_a_slot_past_its_lease(bed: LimiterBed) -> None:
    limiter = await bed.process()
    await limiter.acquire(GPU, [A, B, C])
    await limiter.acquire(GPU, [D])

    for _ in range(8):
        await bed.pass_time(bed.lease_s / 4)
        standing = await limiter.renew(GPU, [A, B, C], [D])
        assert standing.held == {A, B, C}


async def test_a_crashed_holders_slot_comes_back_with_its_lease(bed: LimiterBed) -> None:
    crashed, alive = await bed.process(), await bed.process()
    await crashed.acquire(GPU, [A])
    await alive.acquire(GPU, [B, C, D])
    began = bed.clock.now()

    async def served() -> bool:
        await bed.pass_time(bed.lease_s / 10)
        return D in (await alive.renew(GPU, [B, C], [D])).held

    await until(served, "the waiter has the slot of the crashed holder")
    assert bed.clock.now() - began >= bed.lease_s * 0.8


async def test_the_one_in_line_knows_when_to_look_again(bed: LimiterBed) -> None:
    limiter = await bed.process()
    await limiter.acquire(GPU, [A, B, C])

    standing = await limiter.acquire(GPU, [D])

    assert standing.look_again_s is not None
    assert 0 < standing.look_again_s <= bed.lease_s
    assert (await limiter.release(GPU, [D])) == 1
    assert (await limiter.renew(GPU, [A, B, C], [])).look_again_s is None


async def test_a_crashed_waiter_loses_its_place(bed: LimiterBed) -> None:
    crashed, alive = await bed.process(), await bed.process()
    await alive.acquire(GPU, [A, B, C])
    await crashed.acquire(GPU, [D])
    await alive.acquire(GPU, [E])

    async def forgotten() -> bool:
        await bed.pass_time(bed.lease_s / 4)
        return (await alive.renew(GPU, [A, B, C], [E])).others_waiting == 0

    await until(forgotten, "the crashed waiter is forgotten")
    await alive.release(GPU, [A])
    assert (await standing_of(alive, E)).held == {E}


async def test_a_holder_that_comes_back_late_takes_nobodys_slot(bed: LimiterBed) -> None:
    late, alive = await bed.process(), await bed.process()
    await late.acquire(GPU, [A, B, C])
    await alive.acquire(GPU, [D, E])

    async def served() -> bool:
        await bed.pass_time(bed.lease_s / 4)
        return (await alive.renew(GPU, [], [D, E])).held == {D, E}

    await until(served, "both in line have slots")
    standing = await late.renew(GPU, [A, B, C], [])

    assert len(standing.held) == 1


async def test_limits_do_not_know_each_other(bed: LimiterBed) -> None:
    limiter = await bed.process()
    other = type(GPU)("model:image_gen", 1)

    assert (await limiter.acquire(GPU, [A, B, C])).held == {A, B, C}
    assert (await limiter.acquire(other, [D])).held == {D}


async def watching(bed: LimiterBed, inbox: Inbox) -> SlotLimiter:
    limiter = await bed.process()
    limiter.watch(GPU.name, inbox)
    return limiter
