"""What a user is told about the wait, and what an operator sees."""

from beacon_contracts.tiers import JobClass
from beacon_runner.ports.queue_admin import LaneLoad
from tests.conformance.runner_queue.bed import QueueBed, message


async def served_before(bed: QueueBed, wanted: str) -> int:
    """How many are claimed before it: the truth that a place is held against."""
    served = 0
    while (await bed.claim(1))[0].id != wanted:
        served += 1
    return served


async def test_a_place_in_one_lane_is_exact(bed: QueueBed) -> None:
    wanted = [message("all") for _ in range(30)]
    await bed.add(*wanted)
    await bed.add(message("all"), front=True)
    places = [await bed.desk.place(one) for one in wanted]
    assert [place.ahead for place in places if place] == list(range(1, 31))


async def test_a_place_among_lanes_counts_their_turns(bed: QueueBed) -> None:
    await bed.add(*(message("bulk") for _ in range(50)))
    await bed.add(message("once"))
    mine = [message("mine") for _ in range(3)]
    await bed.add(*mine)
    await bed.add(*(message("late") for _ in range(2)))
    await bed.claim(1)
    place = await bed.desk.place(mine[2])
    assert place is not None
    assert (place.ahead_in_lane, place.active_lanes) == (2, 4)
    assert place.ahead == await served_before(bed, mine[2].id)


async def test_a_paid_skip_stands_in_front(bed: QueueBed) -> None:
    await bed.add(message())
    first, second = message(), message("bea")
    await bed.add(first, second, front=True)
    place = await bed.desk.place(second)
    assert place is not None
    assert (place.front, place.ahead) == (True, 1)


async def test_what_runs_or_is_gone_has_no_place(bed: QueueBed) -> None:
    one = message()
    assert await bed.desk.place(one) is None
    await bed.add(one)
    await bed.claim()
    assert await bed.desk.place(one) is None


async def test_a_place_deep_in_a_long_lane_is_estimated_in_order(bed: QueueBed) -> None:
    wanted = [message() for _ in range(25_000)]
    await bed.add(*wanted)
    deep = [await bed.desk.place(wanted[index]) for index in (9_999, 12_000, 18_000, 24_000)]
    aheads = [place.ahead for place in deep if place]
    assert aheads[0] == 9_999
    assert 0 <= aheads[1] <= aheads[2] <= aheads[3] < 25_000


async def test_stats_say_what_is_where(bed: QueueBed) -> None:
    await bed.add(message(), message(), message("bea", JobClass.HIGH))
    await bed.add(message("cid"), front=True)
    await bed.queue.claim([JobClass.LOW], 2, "w")
    stats = await bed.desk.stats()
    assert stats.waiting == {JobClass.HIGH: 1, JobClass.MEDIUM: 0, JobClass.LOW: 1}
    assert stats.front == {JobClass.HIGH: 0, JobClass.MEDIUM: 0, JobClass.LOW: 0}
    assert list(stats.lanes) == [LaneLoad(JobClass.HIGH, "bea", 1, 0), LaneLoad(JobClass.LOW, "anna", 1, 1)]
    assert (stats.leased, stats.overdue, stats.retry, stats.dead) == (2, 0, 0, 0)


async def test_discarding_a_cancelled_job_frees_its_place(bed: QueueBed) -> None:
    first, second = message(), message()
    await bed.add(first, second)
    assert await bed.desk.discard([first]) == 1
    place = await bed.desk.place(second)
    assert place is not None
    assert place.ahead == 0
    await bed.desk.ping()
