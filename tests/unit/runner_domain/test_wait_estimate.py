"""Position and wait from the counts of the queue and a router's forecast."""

from uuid import UUID

import pytest

from beacon_config.queues import LanesConfig, LaneStrategy
from beacon_contracts.ids import UserId
from beacon_contracts.router_status import ModelForecast, QueueStatus, RegionStatus, UserForecast
from beacon_runner.domain.queue.lanes import lane_at_submission
from beacon_runner.domain.queue.wait_estimate import (
    EstimateTarget,
    QueueAhead,
    RouterForecast,
    WaitEstimate,
    jobs_ahead,
)

FORECAST = ModelForecast(wait_s={"premium": 5.0, "free": 10.0}, pace_s=2.0)


def queues(
    users: dict[str, int] | None = None, regions: tuple[str, ...] = ("US",), **more: object
) -> QueueStatus:
    numbers = dict.fromkeys(("main", "front", "retry", "completed", "failed", "cancelled", "busy"), 0)
    fields = {"forecast": {"m": FORECAST}, "concurrency": 1, "slots": 1, "healthy": True, **numbers, **more}
    totals = dict.fromkeys(("global_retry", "backing_off", "waiting", "running", "held_bytes"), 0)
    return QueueStatus.model_validate(
        {
            "regions": {name: RegionStatus.model_validate({"region": name, **fields}) for name in regions},
            "users": {"US": {"free": {user: {"m": own(count)} for user, count in (users or {}).items()}}},
            **totals,
        }
    )


def own(waiting: int) -> UserForecast:
    return UserForecast(waiting=waiting, next_s=20.0, pace_s=5.0)


def estimate(status: QueueStatus, here: QueueAhead | None = None, **target: object) -> WaitEstimate | None:
    fields = {"model": "m", "region": "US", "tiers": ("premium", "free"), "user": "anna", **target}
    wanted = EstimateTarget(**fields)  # type: ignore[arg-type]
    return RouterForecast(status).estimate(wanted, here or QueueAhead())


def test_a_new_user_waits_as_the_router_forecasts() -> None:
    assert estimate(queues({"bulk": 500, "other": 1})) == WaitEstimate(3, 10.0)


@pytest.mark.parametrize(
    ("target", "starts"),
    [
        ({}, True),
        ({"model": "other"}, False),
        ({"region": "EU"}, True),
        ({"region": "EU", "movable": False}, False),
    ],
)
def test_backends_that_start_are_known(target: dict[str, object], starts: bool) -> None:
    breaker = {"state": "starting"}
    backend = {"name": "us-1", "region": "US", "slots": 1, "busy": 0, "models": ["m"], "breaker": breaker}
    status = queues(forecast={}, backends=[backend])
    assert estimate(status) is None
    fields = {"model": "m", "region": "US", "tiers": ("free",), "user": "anna", **target}
    wanted = EstimateTarget(**fields)  # type: ignore[arg-type]
    assert RouterForecast(status).starts(wanted) is starts


def test_own_waiting_requests_are_ahead_and_others_by_turns() -> None:
    """Two own ones, and three turns of the other user; the router forecasts the user's next request."""
    assert estimate(queues({"bulk": 500, "anna": 2})) == WaitEstimate(6, 20.0)
    assert estimate(queues({"anna": 2}), QueueAhead(own=3)) == WaitEstimate(6, 35.0)


def test_own_requests_for_other_models_do_not_replace_the_forecast_of_this_one() -> None:
    status = queues()
    status.users["US"]["free"]["anna"] = {"other": own(2)}
    assert estimate(status) == WaitEstimate(3, 10.0)
    status.users["US"]["free"]["anna"]["m"] = own(1)
    assert estimate(status) == WaitEstimate(4, 20.0)


def test_work_in_the_runner_counts_like_work_at_the_router() -> None:
    assert estimate(queues({"bulk": 500}), QueueAhead(own=2)) == WaitEstimate(6, 18.0)
    assert estimate(queues(), QueueAhead(others=3)) == WaitEstimate(4, 16.0)


@pytest.mark.parametrize(("ahead", "wait_s"), [(0, 0.0), (1, 0.0), (2, 3.0), (5, 9.0)])
def test_as_many_as_there_are_free_slots_start_at_once(ahead: int, wait_s: float) -> None:
    idle = ModelForecast(wait_s={"free": 0.0}, pace_s=2.0, free=2, then_s=3.0)
    assert estimate(queues(forecast={"m": idle}), QueueAhead(own=ahead)) == WaitEstimate(ahead + 1, wait_s)


def test_in_the_order_of_arrival_all_are_ahead() -> None:
    found = estimate(queues({"": 7}))
    assert found is not None
    assert found.position == 8


def test_an_exclusive_model_counts_only_itself() -> None:
    status = queues({"bulk": 500}, by_model={"m": 3, "n": 100})
    assert estimate(status, QueueAhead(own=1), exclusive=True) == WaitEstimate(5, 12.0)


@pytest.mark.parametrize("movable", [True, False])
def test_a_movable_job_is_estimated_where_it_can_run(movable: bool) -> None:
    status = queues(regions=("EU",))
    assert estimate(status, movable=movable) == (WaitEstimate(1, 10.0) if movable else None)


def test_there_is_no_estimate_when_no_backend_can_run_it() -> None:
    assert estimate(queues(forecast={})) is None


@pytest.mark.parametrize(("exclusive", "position"), [(False, 14), (True, 5)])
def test_a_job_that_nothing_can_run_is_behind_what_waits_for_its_region(
    exclusive: bool, position: int
) -> None:
    status = queues(forecast={}, by_tier={"premium": 4, "free": 8, "lower": 16}, by_model={"m": 3, "n": 9})
    target = EstimateTarget("m", "US", ("premium", "free"), "anna", exclusive=exclusive)
    assert RouterForecast(status).position(target, QueueAhead(own=1)) == position


def test_a_new_job_waits_for_one_round_of_the_lanes() -> None:
    assert jobs_ahead(0, {"bulk": 1000, "other": 3}, "mine") == QueueAhead(0, 2)


def test_own_jobs_and_as_many_rounds_of_other_lanes_are_ahead() -> None:
    assert jobs_ahead(0, {"bulk": 1000, "mine": 4}, "mine") == QueueAhead(4, 5)


def test_jobs_in_the_front_queue_are_ahead_of_all() -> None:
    assert jobs_ahead(2, {"bulk": 1}, "mine") == QueueAhead(0, 3)


def test_nothing_is_ahead_in_an_empty_class() -> None:
    assert jobs_ahead(0, {}, "mine") == QueueAhead(0, 0)


def test_lanes_follow_the_strategy() -> None:
    user, other = UserId(UUID(int=1)), UserId(UUID(int=2))

    def lane(strategy: LaneStrategy, who: UserId) -> str:
        return lane_at_submission(LanesConfig(strategy=strategy, count=20), who)

    assert lane(LaneStrategy.PER_USER, user) != lane(LaneStrategy.PER_USER, other)
    assert lane(LaneStrategy.SINGLE, user) == lane(LaneStrategy.SINGLE, other)
    assert lane(LaneStrategy.HASH, user) == lane(LaneStrategy.HASH, user)
    assert lane(LaneStrategy.HASH, user).startswith("queue_")
    assert lane(LaneStrategy.LEAST_LOADED, user) == ""
