"""The live state and its copy for a forecast are two views of which the policy makes the same choice."""

import pytest

from beacon_router.scheduling.backend_set import BackendSet
from beacon_router.scheduling.forecast.fork import ForkedDomain
from beacon_router.scheduling.policy import choose
from beacon_router.scheduling.scheduler import Scheduler
from tests.unit.router_scheduling.harness import (
    SchedulerHarness,
    many_gpus,
    mixed_topology,
    small_policy,
    two_gpus,
)
from tests.unit.router_scheduling.random_scenarios import RandomScenario

Summary = tuple[str, str, str, bool] | None


def _summary(view: BackendSet, now: float) -> Summary:
    choice = choose(view, now)
    if choice is None:
        return None
    return (choice.candidate.queued.request.id, choice.backend.name, choice.reason, choice.jumps)


def _compare(scheduler: Scheduler, now: float) -> int:
    """How many choices were compared, of all domains."""
    state, compared = scheduler._state, 0
    for domain in state.domains:
        fork = ForkedDomain(domain, state.shares)
        for live, copy in zip(domain.sets, fork.sets, strict=True):
            wake_at = live.wake_at
            expected = _summary(live, now)
            assert _summary(copy, now) == expected
            live.wake_at = wake_at
            compared += expected is not None
    return compared


class ComparingHarness(SchedulerHarness):
    compared = 0

    def next(self) -> list:  # type: ignore[type-arg]
        self.compared += _compare(self.scheduler, self.now)
        return super().next()


@pytest.mark.parametrize("seed", range(9))
def test_both_views_make_the_same_choice(seed: int) -> None:
    topology = (mixed_topology(), two_gpus(), many_gpus())[seed % 3]
    harness = ComparingHarness(topology, small_policy(), compare=False)

    RandomScenario(harness, seed).run(200)

    assert harness.compared > 30


def test_a_forecast_leaves_the_live_state_alone() -> None:
    forecasting = SchedulerHarness(mixed_topology(), small_policy(), compare=True)
    scheduler = forecasting.scheduler
    next_decisions = scheduler.next

    def with_forecast(now: float) -> list:  # type: ignore[type-arg]
        for request in forecasting.waiting:
            scheduler.eta(now, request)
            scheduler.position(request)
        return next_decisions(now)

    scheduler.next = with_forecast  # type: ignore[method-assign]

    RandomScenario(forecasting, 1).run(120)
