"""What is taken comes back or is done with: leases, their holders, and what a crash leaves behind."""

from dataclasses import replace

from beacon_contracts.tiers import JobClass
from beacon_runner.ports.reconcile import LiveMessage
from tests.conformance.runner_queue.bed import QueueBed, message
from tests.fixtures.waiting import until


async def test_an_acknowledged_message_leaves_nothing_behind(bed: QueueBed) -> None:
    await bed.add(message(), message("bea", JobClass.HIGH))
    claimed = await bed.claim()
    assert await bed.queue.ack(claimed) == 2
    assert await bed.keys() == set()
    assert await bed.queue.ack(claimed) == 0


async def test_a_message_is_added_once_wherever_it_is(bed: QueueBed) -> None:
    one = message()
    assert await bed.add(one) == 1
    assert await bed.add(one, one) == 0
    claimed = await bed.claim()
    assert await bed.add(one) == 0
    assert claimed == [one]
    assert await bed.claim() == []


async def test_an_ended_lease_goes_back_before_the_others_of_its_lane(bed: QueueBed) -> None:
    hasty = bed.laid_out(lease_s=0.001)
    first, second, third = message(), message(), message()
    await bed.add(first, second, third)
    await hasty.claim(2)
    assert await until(lambda: bed.queue.reclaim(100), "the lease has ended") == [second, first]
    assert await bed.claim() == [first, second, third]
    assert await bed.loads("anna") == (0, 3)


async def test_a_lease_that_lasts_is_not_reclaimed(bed: QueueBed) -> None:
    await bed.add(message())
    await bed.claim()
    assert await bed.queue.reclaim(100) == []


async def test_a_paid_skip_goes_back_to_the_front(bed: QueueBed) -> None:
    ordinary, paid = message(), message()
    await bed.add(ordinary)
    await bed.add(paid, front=True)
    assert await bed.claim(1) == [paid]
    assert await bed.queue.nack([paid], "w1") == 1
    assert await bed.claim(2) == [paid, ordinary]


async def test_what_is_paid_for_while_a_worker_has_it_goes_back_to_the_front(bed: QueueBed) -> None:
    ordinary, given_back, reclaimed = message(), message("bea"), message("cid")
    await bed.add(given_back, ordinary)
    await bed.claim(1)
    await bed.add(replace(given_back, job_class=JobClass.HIGH), front=True)
    await bed.queue.nack([given_back], "w1")
    (back,) = await bed.claim(1)
    assert (back.job, back.job_class) == (given_back.job, JobClass.HIGH)
    await bed.queue.ack([back])
    await bed.add(reclaimed)
    await bed.queue.ack(await bed.claim(1))  # the ordinary one
    await bed.laid_out(lease_s=0.001).claim(1)
    assert await bed.add(reclaimed, front=True) == 1
    await until(lambda: bed.queue.reclaim(100), "the lease has ended")
    await bed.add(message("dan", JobClass.HIGH))
    assert (await bed.claim(1))[0].job == reclaimed.job


async def test_returned_messages_keep_their_order(bed: QueueBed) -> None:
    wanted = [message() for _ in range(4)]
    await bed.add(*wanted)
    await bed.queue.nack(await bed.claim(3), "w1")
    assert await bed.claim() == wanted
    assert await bed.loads("anna") == (0, 4)


async def test_only_its_holder_can_return_a_message(bed: QueueBed) -> None:
    one = message()
    await bed.add(one)
    await bed.claim(worker="w1")
    assert await bed.queue.nack([one], "w2") == 0
    assert await bed.extend("w2", one) == [one.id]
    assert await bed.queue.nack([one], "w1") == 1


async def test_a_heartbeat_keeps_a_lease_alive(bed: QueueBed) -> None:
    one = message()
    await bed.add(one)
    await bed.laid_out(lease_s=0.001).claim()
    assert await bed.extend("w1", one) == []
    assert await bed.queue.reclaim(100) == []


async def test_a_worker_keeps_what_redis_forgot_or_gave_up_on(bed: QueueBed) -> None:
    forgotten, given_up = message(), message("bea")
    await bed.add(given_up)
    await bed.laid_out(lease_s=0.001).claim()
    await until(lambda: bed.queue.reclaim(100), "the lease has ended")
    assert await bed.extend("w1", forgotten, given_up) == []
    assert await bed.claim(worker="w2") == []
    assert (await bed.loads("anna"), await bed.loads("bea")) == ((0, 1), (0, 1))
    assert await bed.queue.ack([forgotten, given_up]) == 2
    assert await bed.keys() == set()


async def test_what_another_worker_has_taken_is_lost(bed: QueueBed) -> None:
    one = message()
    await bed.add(one)
    await bed.laid_out(lease_s=0.001).claim(worker="w1")
    await until(lambda: bed.queue.reclaim(100), "the lease has ended")
    await bed.claim(worker="w2")
    assert await bed.extend("w1", one) == [one.id]
    assert await bed.extend("w2", one) == []


async def test_removal_takes_only_what_nobody_has_started(bed: QueueBed) -> None:
    leased, waiting, skipped = message(), message("bea"), message("cid")
    await bed.add(leased)
    await bed.claim()
    await bed.add(waiting)
    await bed.add(skipped, front=True)
    assert await bed.desk.discard([leased, waiting, skipped]) == 2
    assert await bed.claim() == []
    assert await bed.queue.ack([leased]) == 1
    assert await bed.keys() == set()


async def test_redis_knows_what_it_holds(bed: QueueBed) -> None:
    waiting, leased, absent = message(), message(), message()
    await bed.add(leased)
    await bed.claim()
    await bed.add(waiting)
    newer = replace(waiting, generation=2)
    asked = [LiveMessage(one, None) for one in (waiting, absent, leased, newer)]
    assert await bed.queue.find_inconsistent(asked) == [absent, newer]
    assert await bed.queue.find_inconsistent([replace(one, front=True) for one in asked[:1]]) == [waiting]
    raised = LiveMessage(replace(leased, job_class=JobClass.HIGH), None)
    assert await bed.queue.find_inconsistent([raised]) == [raised.message]


async def test_what_somebody_wrote_by_hand_costs_the_others_nothing(bed: QueueBed) -> None:
    one = message()
    await bed.add(one)
    await bed.redis.lpush(bed.layout.name("jobs:low:anna"), "scribble:1")
    await bed.redis.rpush(bed.layout.name("jobs:low:anna"), "scribble:2")
    for places in ("jobs:leases", "jobs:retry"):
        await bed.redis.zadd(bed.layout.name(places), {"scribble:3": 1})
    assert await bed.claim() == [one]
    assert await bed.queue.reclaim(10) == []
    await bed.queue.promote_due_retries(10)
    await bed.queue.ack([one])
    assert await bed.keys() == set()


async def test_an_id_that_is_in_two_lists_is_claimed_once(bed: QueueBed) -> None:
    one = message()
    await bed.add(one)
    await bed.redis.lpush(bed.layout.name("jobs:low:bea"), one.id)
    await bed.redis.lpush(bed.layout.name("jobs:low:ring"), "bea", "gone")
    assert await bed.claim(1) == [one]
    assert await bed.claim(worker="w2") == []
    await bed.queue.ack([one])
    assert await bed.keys() == set()


async def test_scripts_survive_a_server_that_forgot_them(bed: QueueBed) -> None:
    await bed.add(message())
    await bed.redis.script_flush()
    assert len(await bed.claim()) == 1


async def test_an_epoch_is_begun_once(bed: QueueBed) -> None:
    assert await bed.queue.epoch() is None
    assert await bed.queue.begin_epoch("one")
    assert not await bed.queue.begin_epoch("two")
    assert await bed.queue.epoch() == "one"
