"""The live state and its copy for a forecast are two views of which the policy makes the same choice."""

from collections import deque

import pytest

from beacon_router.scheduling import Fairness, Policy
from beacon_router.scheduling.forecast.fork import ForkedDomain
from beacon_router.scheduling.forecast.simulation import PolicySimulation
from beacon_router.scheduling.policy import choose
from beacon_router.scheduling.scheduler import Scheduler
from beacon_router.scheduling.state.backend_set import BackendSet
from tests.unit.router_scheduling.harness import (
    SMALL_TIERS,
    SchedulerHarness,
    many_gpus,
    mixed_topology,
    patient_policy,
    small_policy,
    two_gpus,
)
from tests.unit.router_scheduling.random_scenarios import RandomScenario

FIFO_POLICY = Policy(batch_limit=2, tiers=SMALL_TIERS, bypass_limit=2, fairness=Fairness.FIFO)
Summary = tuple[str, str, str, bool] | None


def _summary(view: BackendSet, now: float) -> Summary:
    choice = choose(view, now)
    if choice is None:
        return None
    return (choice.queued.request.id, choice.backend.name, choice.reason, choice.jumps)


def _compare(scheduler: Scheduler, now: float) -> int:
    """How many choices were compared, of all domains."""
    state, compared = scheduler._state, 0
    for domain in state.domains:
        if domain.region.full:  # then a fork has one token: runs of other domains and routers end too
            continue
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


@pytest.mark.parametrize(
    "policy", [small_policy(), patient_policy(), FIFO_POLICY], ids=["small", "patient", "fifo"]
)
@pytest.mark.parametrize("seed", range(6))
def test_both_views_make_the_same_choice(seed: int, policy: Policy) -> None:
    topology = (mixed_topology(), two_gpus(), many_gpus())[seed % 3]
    harness = ComparingHarness(topology, policy, compare=False)

    RandomScenario(harness, seed).run(200)

    assert harness.compared > 30


def _fields(value: object, seen: dict[int, int]) -> object:
    """Everything that can be reached from a value, by fields and slots, as plain tuples."""
    if value is None or isinstance(value, str | int | float | frozenset):
        return value
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = len(seen)
    if isinstance(value, dict):
        return [(_fields(key, seen), _fields(item, seen)) for key, item in value.items()]
    if isinstance(value, list | tuple | deque):
        return [_fields(item, seen) for item in value]
    slots = [slot for each in type(value).__mro__ for slot in getattr(each, "__slots__", ())]
    names = [*slots, *getattr(value, "__dict__", {})]
    return [(name, _fields(getattr(value, name), seen)) for name in names if hasattr(value, name)]


@pytest.mark.parametrize("seed", range(6))
def test_a_simulation_changes_no_field_of_the_live_state(seed: int) -> None:
    """Over all fields and slots, so that a field which a fork forgets to copy is noticed."""
    harness = SchedulerHarness((mixed_topology(), many_gpus())[seed % 2], small_policy(), compare=False)
    scheduler, simulated = harness.scheduler, 0
    next_decisions = scheduler.next

    def with_simulation(now: float) -> list:  # type: ignore[type-arg]
        nonlocal simulated
        state, queues = scheduler._state, scheduler._queues
        if len(harness.waiting) > 5 and simulated < 10:
            before = _fields((state, queues), {})
            for domain in state.domains:
                probes = [(model, 0, "") for model in domain.models]
                simulation = PolicySimulation(now, domain, state.shares, queues.last_seq, probes=probes)
                simulated += simulation.dispatches > 0
            assert _fields((state, queues), {}) == before
        return next_decisions(now)

    scheduler.next = with_simulation  # type: ignore[method-assign]
    RandomScenario(harness, seed).run(150)

    assert simulated >= 10


def test_a_forecast_leaves_the_live_state_alone() -> None:
    forecasting = SchedulerHarness(mixed_topology(), small_policy(), compare=True)
    scheduler = forecasting.scheduler
    next_decisions = scheduler.next

    def with_forecast(now: float) -> list:  # type: ignore[type-arg]
        for request in forecasting.waiting:
            scheduler.eta(now, request)
            scheduler.position(now, request)
        return next_decisions(now)

    scheduler.next = with_forecast  # type: ignore[method-assign]

    RandomScenario(forecasting, 1).run(120)
