"""Positions for users and statistics for operators."""

from beacon_contracts.tiers import JobClass
from beacon_runner.ports.queue_admin import LaneLoad
from tests.conformance.runner_queue.harness import QueueHarness, message


async def served_before(harness: QueueHarness, wanted: str) -> int:
    """How many messages are claimed before it: the expected position."""
    served = 0
    while (await harness.claim(1))[0].id != wanted:
        served += 1
    return served


async def test_the_position_in_one_lane_is_exact(harness: QueueHarness) -> None:
    wanted = [message("all") for _ in range(30)]
    await harness.add(*wanted)
    await harness.add(message("all"), front=True)
    places = [await harness.admin.place(one) for one in wanted]
    assert [place.ahead for place in places if place] == list(range(1, 31))


async def test_the_position_counts_messages_of_other_lanes(harness: QueueHarness) -> None:
    await harness.add(*(message("bulk") for _ in range(50)))
    await harness.add(message("once"))
    mine = [message("mine") for _ in range(3)]
    await harness.add(*mine)
    await harness.add(*(message("late") for _ in range(2)))
    await harness.claim(1)
    place = await harness.admin.place(mine[2])
    assert place is not None
    assert (place.ahead_in_lane, place.active_lanes) == (2, 4)
    assert place.ahead == await served_before(harness, mine[2].id)


async def test_the_position_of_a_paid_skip_is_in_front(harness: QueueHarness) -> None:
    await harness.add(message())
    first, second = message(), message("bea")
    await harness.add(first, second, front=True)
    place = await harness.admin.place(second)
    assert place is not None
    assert (place.front, place.ahead) == (True, 1)


async def test_a_leased_or_removed_message_has_no_position(harness: QueueHarness) -> None:
    one = message()
    assert await harness.admin.place(one) is None
    await harness.add(one)
    await harness.claim()
    assert await harness.admin.place(one) is None


async def test_a_position_deep_in_a_long_lane_is_estimated_in_order(harness: QueueHarness) -> None:
    wanted = [message() for _ in range(25_000)]
    await harness.add(*wanted)
    deep = [await harness.admin.place(wanted[index]) for index in (9_999, 12_000, 18_000, 24_000)]
    aheads = [place.ahead for place in deep if place]
    assert aheads[0] == 9_999
    assert 0 <= aheads[1] <= aheads[2] <= aheads[3] < 25_000


async def test_stats_count_messages_by_place(harness: QueueHarness) -> None:
    await harness.add(message(), message(), message("bea", JobClass.HIGH))
    await harness.add(message("cid"), front=True)
    await harness.queue.claim([JobClass.LOW], 2, "w")
    stats = await harness.admin.stats()
    assert stats.waiting == {JobClass.HIGH: 1, JobClass.MEDIUM: 0, JobClass.LOW: 1}
    assert stats.front == {JobClass.HIGH: 0, JobClass.MEDIUM: 0, JobClass.LOW: 0}
    assert list(stats.lanes) == [LaneLoad(JobClass.HIGH, "bea", 1, 0), LaneLoad(JobClass.LOW, "anna", 1, 1)]
    assert (stats.leased, stats.overdue, stats.retry, stats.dead) == (2, 0, 0, 0)
    assert await harness.admin.leased(["anna", "bea", "cid"]) == {"anna": 1, "bea": 0, "cid": 1}


async def test_a_discarded_message_leaves_its_lane(harness: QueueHarness) -> None:
    first, second = message(), message()
    await harness.add(first, second)
    assert await harness.admin.discard([first]) == 1
    place = await harness.admin.place(second)
    assert place is not None
    assert place.ahead == 0
    await harness.admin.ping()
