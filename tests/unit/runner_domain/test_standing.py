from uuid import UUID

from beacon_config.tiers import LanesConfig, LaneStrategy
from beacon_contracts.ids import UserId
from beacon_contracts.tiers import JobClass
from beacon_runner.domain.lanes import lane_at_submission
from beacon_runner.domain.standing import estimated_wait_s, places_ahead
from beacon_runner.ports.queue_admin import LaneLoad, QueueStats
from tests.unit.runner_domain.making import shipped_config


def stats(front: int = 0, **pending: int) -> QueueStats:
    return QueueStats(
        waiting={JobClass.LOW: sum(pending.values())},
        front={JobClass.LOW: front},
        retry=0,
        dead=0,
        leased=0,
        paused=frozenset(),
        lanes=[LaneLoad(JobClass.LOW, lane, count, 0) for lane, count in pending.items()],
    )


def test_a_newcomer_waits_for_one_turn_of_the_lanes_not_for_a_bulk() -> None:
    assert places_ahead(stats(bulk=1000, other=3), JobClass.LOW, "mine") == 2


def test_one_s_own_jobs_come_first_and_so_do_as_many_turns_of_the_others() -> None:
    assert places_ahead(stats(bulk=1000, mine=4), JobClass.LOW, "mine") == 4 + 5


def test_paid_jobs_go_before_all() -> None:
    assert places_ahead(stats(front=2, bulk=1), JobClass.LOW, "mine") == 3


def test_other_classes_do_not_count() -> None:
    assert places_ahead(stats(bulk=9), JobClass.HIGH, "mine") == 0


def test_the_wait_is_the_work_ahead_over_the_slots_that_can_do_it() -> None:
    config = shipped_config()
    assert estimated_wait_s(config, "flux", 8) == 8 * 1.5 / 8


def test_lanes_follow_the_strategy() -> None:
    user, other = UserId(UUID(int=1)), UserId(UUID(int=2))

    def lane(strategy: LaneStrategy, who: UserId) -> str:
        return lane_at_submission(LanesConfig(strategy=strategy, count=20), who)

    assert lane(LaneStrategy.PER_USER, user) != lane(LaneStrategy.PER_USER, other)
    assert lane(LaneStrategy.SINGLE, user) == lane(LaneStrategy.SINGLE, other)
    assert lane(LaneStrategy.HASH, user) == lane(LaneStrategy.HASH, user)
    assert lane(LaneStrategy.HASH, user).startswith("queue_")
    assert lane(LaneStrategy.LEAST_LOADED, user) == ""
