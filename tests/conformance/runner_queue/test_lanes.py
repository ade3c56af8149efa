"""Lane strategies, counters, retries and the mirror of dead letters."""

import asyncio
import time

import pytest

from beacon_contracts.tiers import JobClass
from beacon_runner.domain.queue.messages import OutboxEntry, Topic
from beacon_runner.ports.queue_admin import LaneCount
from beacon_runner.ports.reconcile import LiveMessage
from tests.conformance.runner_queue.harness import QueueHarness, entry, message


async def test_least_loaded_counts_lanes_as_numbers(harness: QueueHarness) -> None:
    """Incident 18: twenty lanes sorted as text put queue_10 before queue_2."""
    await harness.add(*(message("") for _ in range(20)))
    chosen = [one.lane for one in await harness.claim()]
    assert chosen == [f"queue_{number}" for number in range(20)]


async def test_least_loaded_counts_running_and_waiting_messages(harness: QueueHarness) -> None:
    two = harness.with_layout(chosen_lanes=2)
    await two.add(message(""), message(""), message(""))
    assert (await two.loads("queue_0"), await two.loads("queue_1")) == ((2, 0), (1, 0))
    await two.queue.ack(await two.claim(1))
    await two.add(message(""))
    await two.claim()
    assert (await two.loads("queue_0"), await two.loads("queue_1")) == ((0, 2), (0, 1))


async def test_a_batch_stays_in_one_lane_over_several_pushes(harness: QueueHarness) -> None:
    for _ in range(3):
        await harness.queue.push([entry(message(""), batch="b1") for _ in range(10)])
    await harness.queue.push([entry(message(""), batch="b2")])
    assert (await harness.loads("queue_0"), await harness.loads("queue_1")) == ((30, 0), (1, 0))


async def test_concurrent_choices_never_take_the_same_lane(harness: QueueHarness) -> None:
    await asyncio.gather(*(harness.add(message("")) for _ in range(40)))
    assert [await harness.loads(f"queue_{number}") for number in range(20)] == [(2, 0)] * 20


async def test_one_class_and_one_lane_use_the_list_jobs(harness: QueueHarness) -> None:
    plain = harness.with_layout(plain=True, classes=(JobClass.LOW,))
    wanted = [message("all") for _ in range(3)]
    await plain.add(*wanted)
    assert await plain.redis.lrange(plain.layout.name("jobs"), 0, -1) == [one.id for one in reversed(wanted)]
    assert await plain.claim() == wanted


async def test_long_lanes_are_served_round_robin_and_in_order(harness: QueueHarness) -> None:
    """Lanes with many messages are popped singly, others at once."""
    lanes = {lane: [message(lane) for _ in range(2_100)] for lane in ("anna", "bea")}
    await harness.add(*lanes["anna"], *lanes["bea"])
    taken = [one for size in (1, 2, 4, 6, 3) for one in await harness.claim(size)]
    for lane, waiting in lanes.items():
        assert [one for one in taken if one.lane == lane] == waiting[:8]
    assert await harness.loads("anna") == (2_092, 8)


async def test_messages_of_an_earlier_lane_strategy_are_still_served(harness: QueueHarness) -> None:
    old = [message("anna"), message("bea"), message("all")]
    await harness.add(*old)
    plain = harness.with_layout(plain=True, classes=(JobClass.LOW,))
    new = message("all")
    await plain.add(new)
    assert await plain.queue.repair() == 1  # of the lane whose list has another name now
    assert {one.id for one in await plain.claim()} == {one.id for one in [*old, new]}
    assert await harness.queue.repair() == 0


@pytest.mark.parametrize(
    "lost", ["jobs:low:anna", "jobs:low:ring", "jobs:low:front", "jobs:retry", "jobs:leases"]
)
async def test_messages_missing_from_their_lists_are_restored(harness: QueueHarness, lost: str) -> None:
    leased, waiting, skipped, retried = message(), message(), message(), message()
    await harness.add(leased)
    await harness.claim()
    await harness.add(waiting)
    await harness.add(skipped, front=True)
    await harness.queue.push([OutboxEntry(Topic.RETRY, retried, not_before=1.0)])
    assert await harness.queue.repair() == 0
    await harness.redis.delete(harness.layout.name(lost))
    assert await harness.queue.repair() == 1
    await harness.queue.promote_due_retries(10)
    if lost == "jobs:leases":
        assert await harness.queue.reclaim(10) == [leased]
        await harness.claim()
    assert len(await harness.claim()) + (await harness.admin.stats()).leased >= 4
    assert await harness.queue.ack([leased, waiting, skipped, retried]) == 4
    assert await harness.keys() == set()


async def test_wrong_counters_are_recounted(harness: QueueHarness) -> None:
    await harness.add(*(message() for _ in range(3)))
    await harness.add(message("bea"), front=True)
    await harness.claim(2)
    assert await harness.admin.reset_lanes() == []
    await harness.redis.set(harness.layout.name("queue:anna:running"), 7)
    await harness.redis.set(harness.layout.name("queue:unused:pending"), 2)
    await harness.redis.hset(harness.layout.name("jobs:waiting"), "low", 9)
    assert sorted(await harness.admin.reset_lanes(), key=lambda row: row.lane) == [
        LaneCount("anna", 2, 1),
        LaneCount("unused", 0, 0),
    ]
    assert (await harness.loads("anna"), await harness.loads("bea")) == ((2, 1), (0, 1))
    assert (await harness.admin.stats()).waiting[JobClass.LOW] == 2
    assert await harness.admin.reset_lanes() == []


async def test_a_retry_waits_until_it_is_due(harness: QueueHarness) -> None:
    now = time.time()
    due, later = message(), message("")
    await harness.queue.push(
        [
            OutboxEntry(Topic.RETRY, due, not_before=now - 1),
            OutboxEntry(Topic.RETRY, later, not_before=now + 3600),
        ]
    )
    assert await harness.claim() == []
    assert await harness.queue.find_inconsistent([LiveMessage(one, None) for one in (due, later)]) == []
    assert await harness.queue.promote_due_retries(100) == 1
    assert await harness.claim() == [due]
    stats = await harness.admin.stats()
    assert stats.retry == 1


async def test_a_paid_retry_joins_the_front(harness: QueueHarness) -> None:
    ordinary, before, while_it_waits = message(), message("bea"), message("cid")
    await harness.queue.push(
        [
            OutboxEntry(Topic.RETRY, before, not_before=1.0, front=True),
            OutboxEntry(Topic.RETRY, while_it_waits, not_before=2.0),
            entry(while_it_waits, front=True),
            entry(ordinary),
        ]
    )
    await harness.queue.promote_due_retries(100)
    assert await harness.claim() == [before, while_it_waits, ordinary]


async def test_a_due_retry_without_a_lane_gets_the_least_loaded(harness: QueueHarness) -> None:
    await harness.add(message(""))
    await harness.queue.push([OutboxEntry(Topic.RETRY, message(""), not_before=1.0)])
    await harness.queue.promote_due_retries(100)
    assert [one.lane for one in await harness.claim()] == ["queue_0", "queue_1"]


async def test_a_dead_letter_is_mirrored_once_per_job(harness: QueueHarness) -> None:
    one, other = message(), message()
    dead = [OutboxEntry(Topic.DEAD, letter) for letter in (one, other)]
    assert await harness.queue.push(dead) == 2
    assert await harness.queue.push(dead) == 0
    await harness.queue.push([OutboxEntry(Topic.DEAD, one._replace(generation=5))])
    assert (await harness.admin.stats()).dead == 2
    assert await harness.admin.forget_dead([]) == 0
    assert await harness.admin.forget_dead([one.job]) == 1
    assert await harness.admin.forget_dead(None) == 1
    assert await harness.keys() == set()


async def test_a_dead_letter_is_mirrored_while_its_message_is_still_leased(harness: QueueHarness) -> None:
    one = message()
    await harness.add(one)
    claimed = await harness.claim()
    await harness.queue.push([OutboxEntry(Topic.DEAD, one)])
    await harness.queue.ack(claimed)
    stats = await harness.admin.stats()
    assert (stats.dead, stats.leased) == (1, 0)


@pytest.mark.parametrize(("batch", "served_before"), [("", 40), ("b1", 1)])
async def test_least_loaded_isolates_users_from_batches_only(
    harness: QueueHarness, batch: str, served_before: int
) -> None:
    """docs/architecture.md states this limit, and why per_user is the default."""
    four = harness.with_layout(chosen_lanes=4)
    await four.queue.push([entry(message(""), batch=batch) for _ in range(40)])
    other = message("")
    await four.add(other)
    assert [one.job for one in await four.claim()].index(other.job) == served_before
