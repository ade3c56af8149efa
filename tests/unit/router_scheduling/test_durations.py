"""How run times follow sizes is learned, within bounds, and sizes that say nothing change nothing."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_router.scheduling import ModelSpec
from beacon_router.scheduling.durations import BackendDurations, Durations
from beacon_router.scheduling.size_model import SizeModel

SIZES = st.floats(min_value=0.0, max_value=1e12, exclude_min=True)
SECONDS = st.floats(min_value=0.0, max_value=1e6)
RUNS = st.lists(st.tuples(SIZES, SECONDS), max_size=80)


def _learned(runs: list[tuple[float, float]]) -> SizeModel:
    relation = SizeModel()
    for size, seconds in runs:
        relation.learn(size, seconds)
    return relation


def _runs_s() -> BackendDurations:
    return BackendDurations(Durations((ModelSpec("m", expected_run_s=5.0),)).runs)


@given(RUNS, SIZES)
def test_expected_times_stay_near_the_measured_ones(runs: list[tuple[float, float]], size: float) -> None:
    relation = _learned(runs)
    expected_s = relation.seconds(size)

    if expected_s is not None:
        seen_s = [seconds for _, seconds in runs]
        assert expected_s > 0.0
        assert 0.0999 * min(seen_s) <= expected_s <= 10.001 * max(seen_s)
    assert 0.0 <= relation.uncertainty(size) <= 1.0
    assert relation.seconds(None) is None
    assert relation.uncertainty(None) == 1.0


@given(RUNS, SIZES, SIZES)
def test_a_larger_request_is_never_expected_to_be_shorter(
    runs: list[tuple[float, float]], one: float, other: float
) -> None:
    relation = _learned(runs)

    shorter_s, longer_s = relation.seconds(min(one, other)), relation.seconds(max(one, other))
    assert (shorter_s or 0.0) <= (longer_s or 0.0)


@given(
    st.lists(st.floats(min_value=10.0, max_value=30.0), min_size=10, max_size=200, unique=True),
    st.floats(min_value=0.0, max_value=100.0),
    st.floats(min_value=0.5, max_value=5.0),
)
def test_a_linear_relation_is_found(sizes: list[float], fixed_s: float, each_s: float) -> None:
    relation = _learned([(size, fixed_s + each_s * size) for size in sizes])
    if max(sizes) - min(sizes) < 5.0:
        return  # too much alike to tell

    assert relation.seconds(15.0) == pytest.approx(fixed_s + each_s * 15.0, rel=1e-3)
    assert relation.seconds(25.0) == pytest.approx(fixed_s + each_s * 25.0, rel=1e-3)
    assert relation.uncertainty(20.0) == pytest.approx(0.0, abs=1e-3)


@given(SIZES, st.lists(SECONDS, max_size=60))
def test_constant_sizes_give_no_estimate(size: float, seconds: list[float]) -> None:
    relation = _learned([(size, each) for each in seconds])

    assert relation.seconds(3 * size) is None
    assert relation.uncertainty(size) == 1.0


@given(st.lists(st.tuples(SIZES, SECONDS), max_size=9), SIZES)
def test_few_sizes_give_no_estimate(runs: list[tuple[float, float]], size: float) -> None:
    assert _learned(runs).seconds(size) is None


def test_runs_that_get_shorter_with_their_size_are_taken_as_average() -> None:
    relation = _learned([(float(size), 100.0 - size) for size in range(1, 60)])

    assert relation.seconds(90.0) is None
    assert relation.uncertainty(90.0) == 1.0


def test_a_changed_relation_is_learned_again() -> None:
    chance = Random(1)
    sizes = [chance.uniform(10.0, 30.0) for _ in range(600)]
    relation = _learned([(size, size) for size in sizes] + [(size, 60.0 + size) for size in sizes])

    assert relation.seconds(10.0) == pytest.approx(70.0, rel=0.01)
    assert relation.seconds(30.0) == pytest.approx(90.0, rel=0.01)


def test_inexact_sizes_leave_uncertainty() -> None:
    chance = Random(1)
    seconds = [chance.lognormvariate(1.0, 0.5) for _ in range(400)]
    near = _learned([(each * chance.lognormvariate(0.0, 0.2), each) for each in seconds])
    far = _learned([(each * chance.lognormvariate(0.0, 1.0), each) for each in seconds])

    assert 0.0 < near.uncertainty(1.0) < far.uncertainty(1.0) < 1.0


def test_the_estimate_of_a_size_does_not_depend_on_the_mix() -> None:
    runs_s, chance = _runs_s(), Random(1)
    for _ in range(300):
        size = chance.choice([10.0, 20.0, 30.0])
        runs_s.add("m", 0.5 * size, size)
    for _ in range(10):
        runs_s.add("m", 15.0, 30.0)

    assert runs_s.of_size("m", 10.0) == pytest.approx(5.0)
    assert runs_s.of_size("m", 30.0) == pytest.approx(15.0)
    assert runs_s.of_size("m", None) == runs_s.of("m")


def test_a_slow_backend_takes_longer_for_every_size() -> None:
    quick = _runs_s()
    slow, idle, chance = BackendDurations(quick.shared), BackendDurations(quick.shared), Random(1)
    for _ in range(300):
        size = chance.choice([10.0, 20.0, 30.0])
        quick.add("m", 0.5 * size, size)
        slow.add("m", 1.0 * size, size)

    assert slow.of_size("m", 30.0) == pytest.approx(30.0, rel=0.1)
    assert quick.of_size("m", 30.0) == pytest.approx(15.0, rel=0.1)
    assert 15.0 < idle.of_size("m", 30.0) < 30.0


def test_runs_of_no_length_are_soon_forgotten() -> None:
    runs_s, chance = _runs_s(), Random(1)
    sizes = [chance.uniform(1.0, 10.0) for _ in range(20_300)]
    for size in sizes[:100]:
        runs_s.add("m", size, size)
    for size in sizes[100:20_100]:
        runs_s.add("m", 0.0, size)
    for size in sizes[20_100:]:
        runs_s.add("m", size, size)

    assert runs_s.of_size("m", 5.0) == pytest.approx(5.0, rel=0.2)


def test_an_absurd_size_is_soon_forgotten() -> None:
    runs_s, chance = _runs_s(), Random(1)
    sizes = [chance.uniform(1.0, 10.0) for _ in range(400)]
    for size in [*sizes[:200], 1e12, *sizes[200:]]:
        runs_s.add("m", min(size, 10.0), size)

    assert runs_s.of_size("m", 2.0) == pytest.approx(2.0, rel=0.2)


@given(st.lists(SECONDS, max_size=60), SIZES)
def test_constant_sizes_leave_the_averages_unchanged(measured: list[float], size: float) -> None:
    without, constant = _runs_s(), _runs_s()
    for seconds in measured:
        without.add("m", seconds)
        constant.add("m", seconds, size)

    assert (
        constant.of("m") == without.of("m") == constant.of_size("m", 2 * size) == without.of_size("m", size)
    )
