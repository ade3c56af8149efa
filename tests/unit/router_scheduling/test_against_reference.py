"""The scheduler decides as the reference model does, and the invariants hold, in random scenarios."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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

TOPOLOGIES = {"mixed": mixed_topology(), "two": two_gpus(), "many": many_gpus()}
POLICIES = {
    "small": small_policy(),
    "patient": patient_policy(),
    "no_warm_wait": small_policy(0.0),
    "fifo": Policy(batch_limit=2, tiers=SMALL_TIERS, bypass_limit=2, fairness=Fairness.FIFO),
}
SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
@settings(max_examples=10)
@given(seed=SEEDS)
def test_random_scenarios_match_the_reference(topology: Topology, policy: Policy, seed: int) -> None:
    RandomScenario(SchedulerHarness(topology, policy, compare=True), seed).run(240)


@settings(max_examples=4)
@given(seed=SEEDS)
def test_every_tier_is_served_within_its_bound_in_a_flood(seed: int) -> None:
    harness = SchedulerHarness(two_gpus(), small_policy(), compare=True)
    flood(harness, seed, 400)
