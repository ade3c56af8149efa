"""The invariants and the reference model notice every broken scheduler."""

import pytest

from tests.unit.router_scheduling.harness import (
    SchedulerHarness,
    many_gpus,
    mixed_topology,
    patient_policy,
    small_policy,
    two_gpus,
)
from tests.unit.router_scheduling.mutants import MUTANTS, Mutant
from tests.unit.router_scheduling.random_scenarios import RandomScenario, flood


def _fault_found() -> bool:
    for seed in range(18):
        topology = (mixed_topology(), two_gpus(), many_gpus())[seed % 3]
        policy = (small_policy(), patient_policy())[seed % 2]
        harness = SchedulerHarness(topology, policy, compare=True)
        try:
            RandomScenario(harness, seed).run(240)
            if seed % 3 == 1:
                flood(SchedulerHarness(two_gpus(), small_policy(), compare=True), seed, 150)
        except (AssertionError, LookupError):
            return True
    return False


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_scheduler_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.break_it(monkeypatch)
    assert _fault_found()


def test_the_scheduler_itself_has_no_fault() -> None:
    assert not _fault_found()
