"""How run times follow sizes is learned, within bounds, and sizes that say nothing change nothing."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_router.core import ModelSpec
from beacon_router.core.averages import Durations, OwnAverages
from beacon_router.core.relation import Relation

SIZES = st.floats(min_value=0.0, max_value=1e12, exclude_min=True)
SECONDS = st.floats(min_value=0.0, max_value=1e6)
RUNS = st.lists(st.tuples(SIZES, SECONDS), max_size=80)


def _learned(runs: list[tuple[float, float]]) -> Relation:
    relation = Relation()
    for size, seconds in runs:
        relation.learn(size, seconds)
    return relation


def _runs_s() -> OwnAverages:
    return OwnAverages(Durations((ModelSpec("m", expected_run_s=5.0),)).runs)


@given(RUNS, SIZES)
def test_nothing_is_expected_far_from_the_usual(runs: list[tuple[float, float]], size: float) -> None:
    relation = _learned(runs)

    assert 0.1 <= relation.factor(size) <= 10.0
    assert 0.0 <= relation.doubt(size) <= 1.0
    assert relation.factor(None) == relation.doubt(None) == 1.0


@given(RUNS, SIZES, SIZES)
def test_what_is_larger_is_never_expected_to_be_shorter(
    runs: list[tuple[float, float]], one: float, other: float
) -> None:
    relation = _learned(runs)

    assert relation.factor(min(one, other)) <= relation.factor(max(one, other))


@given(
    st.lists(st.floats(min_value=10.0, max_value=30.0), min_size=10, max_size=200, unique=True),
    st.floats(min_value=0.0, max_value=100.0),
    st.floats(min_value=0.5, max_value=5.0),
)
def test_a_line_is_found_as_it_is(sizes: list[float], fixed_s: float, each_s: float) -> None:
    relation = _learned([(size, fixed_s + each_s * size) for size in sizes])
    if max(sizes) - min(sizes) < 5.0:
        return  # too much alike to tell

    measured = relation.factor(25.0) / relation.factor(15.0)

    assert measured == pytest.approx((fixed_s + each_s * 25.0) / (fixed_s + each_s * 15.0), rel=1e-3)
    assert relation.doubt(20.0) == pytest.approx(0.0, abs=1e-3)


@given(SIZES, st.lists(SECONDS, max_size=60))
def test_sizes_that_do_not_vary_say_nothing(size: float, seconds: list[float]) -> None:
    relation = _learned([(size, each) for each in seconds])

    assert relation.factor(3 * size) == relation.doubt(size) == 1.0


@given(st.lists(st.tuples(SIZES, SECONDS), max_size=9), SIZES)
def test_a_few_sizes_say_nothing(runs: list[tuple[float, float]], size: float) -> None:
    assert _learned(runs).factor(size) == 1.0


def test_runs_that_get_shorter_with_their_size_are_taken_as_average() -> None:
    relation = _learned([(float(size), 100.0 - size) for size in range(1, 60)])

    assert relation.factor(90.0) == relation.doubt(90.0) == 1.0


def test_a_law_that_changes_is_learned_again() -> None:
    chance = Random(1)
    sizes = [chance.uniform(10.0, 30.0) for _ in range(600)]
    relation = _learned([(size, size) for size in sizes] + [(size, 60.0 + size) for size in sizes])

    assert relation.factor(30.0) / relation.factor(10.0) == pytest.approx(90.0 / 70.0, rel=0.01)


def test_sizes_that_are_off_leave_doubt() -> None:
    chance = Random(1)
    seconds = [chance.lognormvariate(1.0, 0.5) for _ in range(400)]
    near = _learned([(each * chance.lognormvariate(0.0, 0.2), each) for each in seconds])
    far = _learned([(each * chance.lognormvariate(0.0, 1.0), each) for each in seconds])

    assert 0.0 < near.doubt(1.0) < far.doubt(1.0) < 1.0


def test_the_usual_run_does_not_swing_with_the_mix_of_sizes() -> None:
    runs_s, chance = _runs_s(), Random(1)
    for _ in range(300):
        size = chance.choice([10.0, 20.0, 30.0])
        runs_s.add("m", 0.5 * size, size)
    before = runs_s.of("m")
    for _ in range(10):
        runs_s.add("m", 15.0, 30.0)

    assert before == pytest.approx(10.0, rel=0.1)
    assert runs_s.of("m") == pytest.approx(before, rel=0.15)
    assert runs_s.of_size("m", 30.0) == pytest.approx(15.0, rel=0.05)
    assert runs_s.of_size("m", None) == runs_s.of("m")


@given(st.lists(SECONDS, max_size=60), SIZES)
def test_without_sizes_and_with_equal_ones_averages_are_the_same_to_the_last_bit(
    measured: list[float], size: float
) -> None:
    silent, told = _runs_s(), _runs_s()
    for seconds in measured:
        silent.add("m", seconds)
        told.add("m", seconds, size)

    assert told.of("m") == silent.of("m") == told.of_size("m", 2 * size) == silent.of_size("m", size)
