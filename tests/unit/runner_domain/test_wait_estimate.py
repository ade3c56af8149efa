from uuid import UUID

from beacon_config.tiers import LanesConfig, LaneStrategy
from beacon_contracts.ids import UserId
from beacon_runner.domain.lanes import lane_at_submission
from beacon_runner.domain.wait_estimate import jobs_ahead, seconds_per_job
from tests.unit.runner_domain.factories import shipped_config


def test_a_new_job_waits_for_one_round_of_the_lanes() -> None:
    assert jobs_ahead(0, {"bulk": 1000, "other": 3}, "mine") == 2


def test_own_jobs_and_as_many_rounds_of_other_lanes_are_ahead() -> None:
    assert jobs_ahead(0, {"bulk": 1000, "mine": 4}, "mine") == 4 + 5


def test_jobs_in_the_front_queue_are_ahead_of_all() -> None:
    assert jobs_ahead(2, {"bulk": 1}, "mine") == 3


def test_nothing_is_ahead_in_an_empty_class() -> None:
    assert jobs_ahead(0, {}, "mine") == 0


def test_a_job_ahead_costs_its_run_divided_by_the_slots_of_its_model() -> None:
    assert seconds_per_job(shipped_config())["flux"] == 1.5 / 8


def test_lanes_follow_the_strategy() -> None:
    user, other = UserId(UUID(int=1)), UserId(UUID(int=2))

    def lane(strategy: LaneStrategy, who: UserId) -> str:
        return lane_at_submission(LanesConfig(strategy=strategy, count=20), who)

    assert lane(LaneStrategy.PER_USER, user) != lane(LaneStrategy.PER_USER, other)
    assert lane(LaneStrategy.SINGLE, user) == lane(LaneStrategy.SINGLE, other)
    assert lane(LaneStrategy.HASH, user) == lane(LaneStrategy.HASH, user)
    assert lane(LaneStrategy.HASH, user).startswith("queue_")
    assert lane(LaneStrategy.LEAST_LOADED, user) == ""
