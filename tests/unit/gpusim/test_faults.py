"""Fault rules: which rule applies to which call."""

from random import Random

from beacon_gpusim.core.faults import Fault, FaultKind, FaultRules


def book(*faults: Fault, seed: int = 1) -> FaultRules:
    made = FaultRules(Random(seed))
    for fault in faults:
        made.add(fault)
    return made


def kinds(faults: FaultRules, model: str, calls: int) -> list[FaultKind | None]:
    return [None if fault is None else fault.kind for fault in (faults.decide(model) for _ in range(calls))]


def test_without_rules_nothing_happens() -> None:
    assert kinds(book(), "m", 3) == [None, None, None]


def test_a_rule_for_the_next_calls_ends_after_them() -> None:
    faults = book(Fault(FaultKind.ERROR, next_n=2))
    assert kinds(faults, "m", 4) == [FaultKind.ERROR, FaultKind.ERROR, None, None]
    assert faults.rules == ()


def test_a_rule_for_one_model_leaves_the_others_alone() -> None:
    faults = book(Fault(FaultKind.HANG, model="flux", next_n=1))
    assert kinds(faults, "sdxl", 2) == [None, None]
    assert kinds(faults, "flux", 2) == [FaultKind.HANG, None]


def test_the_first_rule_that_applies_decides() -> None:
    faults = book(Fault(FaultKind.EMPTY, model="flux"), Fault(FaultKind.ERROR))
    assert kinds(faults, "flux", 1) == [FaultKind.EMPTY]
    assert kinds(faults, "other", 1) == [FaultKind.ERROR]


def test_a_probability_is_repeatable_by_seed() -> None:
    rule = Fault(FaultKind.ERROR, probability=0.25)
    spoiled = kinds(book(rule, seed=5), "m", 2000)
    assert 400 < spoiled.count(FaultKind.ERROR) < 600
    assert spoiled == kinds(book(rule, seed=5), "m", 2000)


def test_a_probability_and_a_count_together_end_after_the_count() -> None:
    faults = book(Fault(FaultKind.ERROR, probability=0.5, next_n=3))
    assert kinds(faults, "m", 100).count(FaultKind.ERROR) == 3


def test_clear_removes_all_rules() -> None:
    faults = book(Fault(FaultKind.ERROR))
    faults.clear()
    assert faults.decide("m") is None
