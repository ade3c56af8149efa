"""The scheduler decides as the reference model does, and the invariants hold, in random scenarios."""

import pytest

from beacon_router.scheduling import Fairness, Policy, Topology
from tests.unit.router_scheduling.harness import (
    SMALL_TIERS,
    SchedulerHarness,
    many_gpus,
    mixed_topology,
    patient_policy,
    small_policy,
    two_gpus,
)
from tests.unit.router_scheduling.random_scenarios import RandomScenario, flood

FIFO_POLICY = Policy(batch_limit=2, tiers=SMALL_TIERS, bypass_limit=2, fairness=Fairness.FIFO)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(
    "topology", [mixed_topology(), two_gpus(), many_gpus()], ids=["mixed", "two", "many"]
)
def test_random_scenarios_match_the_reference(topology: Topology, seed: int) -> None:
    policy = (small_policy(), patient_policy(), small_policy(0.0), FIFO_POLICY)[seed % 4]
    harness = SchedulerHarness(topology, policy, compare=True)
    RandomScenario(harness, seed).run(240)


@pytest.mark.parametrize("seed", range(4))
def test_every_tier_is_served_within_its_bound_in_a_flood(seed: int) -> None:
    harness = SchedulerHarness(two_gpus(), small_policy(), compare=True)
    flood(harness, seed, 400)
