"""Who is served first: front, then lanes in turn, arrival inside a lane, classes in the pool's order."""

from dataclasses import replace

from beacon_contracts.tiers import JobClass
from tests.conformance.runner_queue.bed import QueueBed, message


async def test_a_lane_is_served_in_order_of_arrival(bed: QueueBed) -> None:
    wanted = [message() for _ in range(5)]
    await bed.add(*wanted)
    assert await bed.claim(2) == wanted[:2]
    assert await bed.claim(10) == wanted[2:]
    assert await bed.claim(10) == []


async def test_lanes_take_turns_so_that_a_bulk_blocks_nobody(bed: QueueBed) -> None:
    bulk = [message("bulk") for _ in range(100)]
    await bed.add(*bulk)
    others = [message(f"user-{number}") for number in range(3)]
    await bed.add(*others)
    first = await bed.claim(5)
    assert {one.lane for one in first} == {"bulk", "user-0", "user-1", "user-2"}
    assert [one for one in first if one.lane == "bulk"] == bulk[:2]


async def test_turns_go_on_where_the_last_claim_ended(bed: QueueBed) -> None:
    await bed.add(*(message(lane) for lane in "aabbcc"))
    turns = [(await bed.claim(1))[0].lane for _ in range(6)]
    assert turns == ["a", "b", "c", "a", "b", "c"]


async def test_a_paid_skip_is_next_and_paid_skips_keep_their_order(bed: QueueBed) -> None:
    ordinary, first, second = message(), message(), message("bea")
    await bed.add(ordinary)
    await bed.add(first, second, front=True)
    assert await bed.claim() == [first, second, ordinary]


async def test_classes_are_served_in_the_order_asked_for(bed: QueueBed) -> None:
    low, medium, high = (
        message("a", job_class) for job_class in (JobClass.LOW, JobClass.MEDIUM, JobClass.HIGH)
    )
    await bed.add(low, medium, high)
    assert await bed.queue.claim([JobClass.MEDIUM, JobClass.HIGH], 2, "w") == [medium, high]
    assert await bed.queue.claim([JobClass.MEDIUM, JobClass.HIGH], 2, "w") == []
    assert await bed.queue.claim([JobClass.LOW], 2, "w") == [low]


async def test_a_paused_class_is_skipped_until_it_resumes(bed: QueueBed) -> None:
    low, high = message(), message("a", JobClass.HIGH)
    await bed.add(low, high)
    await bed.desk.pause(JobClass.LOW)
    assert await bed.claim() == [high]
    assert (await bed.desk.stats()).paused == {JobClass.LOW}
    await bed.desk.resume(JobClass.LOW)
    assert await bed.claim() == [low]


async def test_a_promoted_message_leaves_its_old_class(bed: QueueBed) -> None:
    moved, stays = message(), message()
    await bed.add(moved, stays)
    assert await bed.add(replace(moved, job_class=JobClass.MEDIUM)) == 1
    assert await bed.queue.claim([JobClass.LOW], 10, "w") == [stays]
    (claimed,) = await bed.queue.claim([JobClass.MEDIUM], 10, "w")
    assert claimed.id == moved.id
    assert claimed.job_class is JobClass.MEDIUM


async def test_a_message_never_moves_down_or_twice(bed: QueueBed) -> None:
    one = message("a", JobClass.MEDIUM)
    await bed.add(one)
    assert await bed.add(replace(one, job_class=JobClass.LOW)) == 0
    assert await bed.add(replace(one, job_class=JobClass.HIGH)) == 1
    assert await bed.add(replace(one, job_class=JobClass.HIGH)) == 0
    assert await bed.add(one, front=True) == 1
    assert await bed.add(one, front=True) == 0
    assert [found.id for found in await bed.claim()] == [one.id]
    assert await bed.add(one, front=True) == 0


async def test_a_skip_that_comes_through_the_outbox_moves_the_message_that_is_there(bed: QueueBed) -> None:
    first, skipper = message(), message()
    await bed.add(first, skipper)
    await bed.add(skipper, front=True)
    await bed.add(skipper)  # the first outbox row again: it takes nothing back
    assert await bed.claim() == [skipper, first]
    assert await bed.loads("anna") == (0, 2)
