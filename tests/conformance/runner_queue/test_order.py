"""Order of service: front, lanes round-robin, arrival inside a lane, classes in the pool's order."""

from beacon_contracts.tiers import JobClass
from tests.conformance.runner_queue.harness import QueueHarness, message


async def test_a_lane_is_served_in_order_of_arrival(harness: QueueHarness) -> None:
    wanted = [message() for _ in range(5)]
    await harness.add(*wanted)
    assert await harness.claim(2) == wanted[:2]
    assert await harness.claim(10) == wanted[2:]
    assert await harness.claim(10) == []


async def test_lanes_are_served_round_robin_so_that_a_bulk_blocks_no_lane(harness: QueueHarness) -> None:
    bulk = [message("bulk") for _ in range(100)]
    await harness.add(*bulk)
    others = [message(f"user-{number}") for number in range(3)]
    await harness.add(*others)
    first = await harness.claim(5)
    assert {one.lane for one in first} == {"bulk", "user-0", "user-1", "user-2"}
    assert [one for one in first if one.lane == "bulk"] == bulk[:2]


async def test_a_claim_continues_where_the_last_one_ended(harness: QueueHarness) -> None:
    await harness.add(*(message(lane) for lane in "aabbcc"))
    turns = [(await harness.claim(1))[0].lane for _ in range(6)]
    assert turns == ["a", "b", "c", "a", "b", "c"]


async def test_a_paid_skip_is_next_and_paid_skips_keep_their_order(harness: QueueHarness) -> None:
    ordinary, first, second = message(), message(), message("bea")
    await harness.add(ordinary)
    await harness.add(first, second, front=True)
    assert await harness.claim() == [first, second, ordinary]


async def test_classes_are_served_in_the_given_order(harness: QueueHarness) -> None:
    low, medium, high = (
        message("a", job_class) for job_class in (JobClass.LOW, JobClass.MEDIUM, JobClass.HIGH)
    )
    await harness.add(low, medium, high)
    assert await harness.queue.claim([JobClass.MEDIUM, JobClass.HIGH], 2, "w") == [medium, high]
    assert await harness.queue.claim([JobClass.MEDIUM, JobClass.HIGH], 2, "w") == []
    assert await harness.queue.claim([JobClass.LOW], 2, "w") == [low]


async def test_a_paused_class_is_skipped_until_it_resumes(harness: QueueHarness) -> None:
    low, high = message(), message("a", JobClass.HIGH)
    await harness.add(low, high)
    await harness.admin.pause(JobClass.LOW)
    assert await harness.claim() == [high]
    assert (await harness.admin.stats()).paused == {JobClass.LOW}
    await harness.admin.resume(JobClass.LOW)
    assert await harness.claim() == [low]


async def test_a_promoted_message_leaves_its_old_class(harness: QueueHarness) -> None:
    moved, stays = message(), message()
    await harness.add(moved, stays)
    assert await harness.add(moved._replace(job_class=JobClass.MEDIUM)) == 1
    assert await harness.queue.claim([JobClass.LOW], 10, "w") == [stays]
    (claimed,) = await harness.queue.claim([JobClass.MEDIUM], 10, "w")
    assert claimed.id == moved.id
    assert claimed.job_class is JobClass.MEDIUM


async def test_a_message_is_never_demoted_or_moved_twice(harness: QueueHarness) -> None:
    one = message("a", JobClass.MEDIUM)
    await harness.add(one)
    assert await harness.add(one._replace(job_class=JobClass.LOW)) == 0
    assert await harness.add(one._replace(job_class=JobClass.HIGH)) == 1
    assert await harness.add(one._replace(job_class=JobClass.HIGH)) == 0
    assert await harness.add(one, front=True) == 1
    assert await harness.add(one, front=True) == 0
    assert [found.id for found in await harness.claim()] == [one.id]
    assert await harness.add(one, front=True) == 0


async def test_a_skip_from_the_outbox_moves_the_existing_message(
    harness: QueueHarness,
) -> None:
    first, skipper = message(), message()
    await harness.add(first, skipper)
    await harness.add(skipper, front=True)
    await harness.add(skipper)  # the first outbox row again: it takes nothing back
    assert await harness.claim() == [skipper, first]
    assert await harness.loads("anna") == (0, 2)
