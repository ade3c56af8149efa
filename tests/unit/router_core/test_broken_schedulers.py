"""Every invariant can fail: for each there is a broken scheduler that it catches, and the real one passes."""

import pytest

from benchmarks.scheduling.invariants import Rule, Violation
from tests.unit.router_core.mutants import MUTANTS, Mutant
from tests.unit.router_core.rig import (
    Rig,
    many_gpus,
    mixed_topology,
    patient_policy,
    small_policy,
    two_gpus,
)
from tests.unit.router_core.stories import Story, flood

SEEDS = range(25)
_WORLDS = [
    (mixed_topology(), small_policy()),
    (two_gpus(), small_policy()),
    (many_gpus(), patient_policy()),
]


def _rules_broken(*, until: Rule | None = None) -> set[Rule]:
    """The names of the rules that stories of this scheduler violate, told until one of them is `until`."""
    rules: set[Rule] = set()
    for seed in SEEDS:
        for topology, policy in _WORLDS:
            try:
                Story(Rig(topology, policy, compare=False), seed).tell(120)
            except Violation as violation:
                rules.add(violation.rule)
            if until in rules:
                return rules
    return rules | _rules_broken_by_a_flood()


def _rules_broken_by_a_flood() -> set[Rule]:
    try:
        flood(Rig(two_gpus(), small_policy(), compare=False), seed=1, dispatches=150)
    except Violation as violation:
        return {violation.rule}
    return set()


def test_the_scheduler_breaks_no_rule() -> None:
    assert _rules_broken() == set()


def test_every_rule_has_a_scheduler_that_breaks_it() -> None:
    assert {mutant.rule for mutant in MUTANTS} == set(Rule)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_one_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.break_it(monkeypatch)
    assert mutant.rule in _rules_broken(until=mutant.rule)
