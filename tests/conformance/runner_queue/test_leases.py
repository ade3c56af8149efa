"""Leases: acknowledgement, return, expiry, holders, and what remains after a crash."""

from dataclasses import replace

from beacon_contracts.tiers import JobClass
from beacon_runner.ports.reconcile import LiveMessage
from tests.conformance.runner_queue.harness import QueueHarness, message
from tests.fixtures.waiting import until


async def test_an_acknowledged_message_leaves_nothing_behind(harness: QueueHarness) -> None:
    await harness.add(message(), message("bea", JobClass.HIGH))
    claimed = await harness.claim()
    assert await harness.queue.ack(claimed) == 2
    assert await harness.keys() == set()
    assert await harness.queue.ack(claimed) == 0


async def test_a_message_is_added_once_in_any_place(harness: QueueHarness) -> None:
    one = message()
    assert await harness.add(one) == 1
    assert await harness.add(one, one) == 0
    claimed = await harness.claim()
    assert await harness.add(one) == 0
    assert claimed == [one]
    assert await harness.claim() == []


async def test_a_message_with_an_expired_lease_returns_to_the_head_of_its_lane(harness: QueueHarness) -> None:
    hasty = harness.with_layout(lease_s=0.001)
    first, second, third = message(), message(), message()
    await harness.add(first, second, third)
    await hasty.claim(2)
    assert await until(lambda: harness.queue.reclaim(100), "the lease has ended") == [second, first]
    assert await harness.claim() == [first, second, third]
    assert await harness.loads("anna") == (0, 3)


async def test_a_valid_lease_is_not_reclaimed(harness: QueueHarness) -> None:
    await harness.add(message())
    await harness.claim()
    assert await harness.queue.reclaim(100) == []


async def test_a_returned_paid_skip_joins_the_front(harness: QueueHarness) -> None:
    ordinary, paid = message(), message()
    await harness.add(ordinary)
    await harness.add(paid, front=True)
    assert await harness.claim(1) == [paid]
    assert await harness.queue.nack([paid], "w1") == 1
    assert await harness.claim(2) == [paid, ordinary]


async def test_a_message_paid_for_while_leased_returns_to_the_front(harness: QueueHarness) -> None:
    ordinary, given_back, reclaimed = message(), message("bea"), message("cid")
    await harness.add(given_back, ordinary)
    await harness.claim(1)
    await harness.add(given_back._replace(job_class=JobClass.HIGH), front=True)
    await harness.queue.nack([given_back], "w1")
    (back,) = await harness.claim(1)
    assert (back.job, back.job_class) == (given_back.job, JobClass.HIGH)
    await harness.queue.ack([back])
    await harness.add(reclaimed)
    await harness.queue.ack(await harness.claim(1))  # the ordinary one
    await harness.with_layout(lease_s=0.001).claim(1)
    assert await harness.add(reclaimed, front=True) == 1
    await until(lambda: harness.queue.reclaim(100), "the lease has ended")
    await harness.add(message("dan", JobClass.HIGH))
    assert (await harness.claim(1))[0].job == reclaimed.job


async def test_returned_messages_keep_their_order(harness: QueueHarness) -> None:
    wanted = [message() for _ in range(4)]
    await harness.add(*wanted)
    await harness.queue.nack(await harness.claim(3), "w1")
    assert await harness.claim() == wanted
    assert await harness.loads("anna") == (0, 4)


async def test_only_its_holder_can_return_a_message(harness: QueueHarness) -> None:
    one = message()
    await harness.add(one)
    await harness.claim(worker="w1")
    assert await harness.queue.nack([one], "w2") == 0
    assert await harness.extend("w2", one) == [one.id]
    assert await harness.queue.nack([one], "w1") == 1


async def test_a_heartbeat_keeps_a_lease_alive(harness: QueueHarness) -> None:
    one = message()
    await harness.add(one)
    await harness.with_layout(lease_s=0.001).claim()
    assert await harness.extend("w1", one) == []
    assert await harness.queue.reclaim(100) == []


async def test_a_heartbeat_restores_lost_and_expired_leases(harness: QueueHarness) -> None:
    forgotten, given_up = message(), message("bea")
    await harness.add(given_up)
    await harness.with_layout(lease_s=0.001).claim()
    await until(lambda: harness.queue.reclaim(100), "the lease has ended")
    assert await harness.extend("w1", forgotten, given_up) == []
    assert await harness.claim(worker="w2") == []
    assert (await harness.loads("anna"), await harness.loads("bea")) == ((0, 1), (0, 1))
    assert await harness.queue.ack([forgotten, given_up]) == 2
    assert await harness.keys() == set()


async def test_a_message_that_another_worker_leased_is_lost(harness: QueueHarness) -> None:
    one = message()
    await harness.add(one)
    await harness.with_layout(lease_s=0.001).claim(worker="w1")
    await until(lambda: harness.queue.reclaim(100), "the lease has ended")
    await harness.claim(worker="w2")
    assert await harness.extend("w1", one) == [one.id]
    assert await harness.extend("w2", one) == []


async def test_only_messages_without_a_lease_are_removed(harness: QueueHarness) -> None:
    leased, waiting, skipped = message(), message("bea"), message("cid")
    await harness.add(leased)
    await harness.claim()
    await harness.add(waiting)
    await harness.add(skipped, front=True)
    assert await harness.admin.discard([leased, waiting, skipped]) == 2
    assert await harness.claim() == []
    assert await harness.queue.ack([leased]) == 1
    assert await harness.keys() == set()


async def test_inconsistent_messages_are_found(harness: QueueHarness) -> None:
    waiting, leased, absent = message(), message(), message()
    await harness.add(leased)
    await harness.claim()
    await harness.add(waiting)
    newer = waiting._replace(generation=2)
    live = [LiveMessage(one, None) for one in (waiting, absent, leased, newer)]
    assert await harness.queue.find_inconsistent(live) == [absent, newer]
    assert await harness.queue.find_inconsistent([replace(one, front=True) for one in live[:1]]) == [waiting]
    raised = LiveMessage(leased._replace(job_class=JobClass.HIGH), None)
    assert await harness.queue.find_inconsistent([raised]) == [raised.message]


async def test_foreign_entries_do_not_affect_other_messages(harness: QueueHarness) -> None:
    one = message()
    await harness.add(one)
    await harness.redis.lpush(harness.layout.name("jobs:low:anna"), "scribble:1")
    await harness.redis.rpush(harness.layout.name("jobs:low:anna"), "scribble:2")
    for places in ("jobs:leases", "jobs:retry"):
        await harness.redis.zadd(harness.layout.name(places), {"scribble:3": 1})
    assert await harness.claim() == [one]
    assert await harness.queue.reclaim(10) == []
    await harness.queue.promote_due_retries(10)
    await harness.queue.ack([one])
    assert await harness.keys() == set()


async def test_an_id_that_is_in_two_lists_is_claimed_once(harness: QueueHarness) -> None:
    one = message()
    await harness.add(one)
    await harness.redis.lpush(harness.layout.name("jobs:low:bea"), one.id)
    await harness.redis.lpush(harness.layout.name("jobs:low:ring"), "bea", "gone")
    assert await harness.claim(1) == [one]
    assert await harness.claim(worker="w2") == []
    await harness.queue.ack([one])
    assert await harness.keys() == set()


async def test_scripts_are_sent_again_to_a_server_that_lost_them(harness: QueueHarness) -> None:
    await harness.add(message())
    await harness.redis.script_flush()
    assert len(await harness.claim()) == 1


async def test_an_epoch_is_begun_once(harness: QueueHarness) -> None:
    assert await harness.queue.epoch() is None
    assert await harness.queue.begin_epoch("one")
    assert not await harness.queue.begin_epoch("two")
    assert await harness.queue.epoch() == "one"
