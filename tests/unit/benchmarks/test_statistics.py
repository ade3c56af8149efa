"""Ratios are made inside a round, and medians are not moved by one bad round."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness.rounds import shuffled_rounds
from benchmarks.harness.statistics import Spread, paired_ratios, percentile, ratio

numbers = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=50)


def test_ratios_compare_figures_of_the_same_round() -> None:
    rounds = [{"ours": 200.0, "theirs": 100.0}, {"ours": 20.0, "theirs": 10.0}]  # a machine ten times slower

    assert paired_ratios(rounds, "ours", "theirs") == [2.0, 2.0]


def test_rounds_in_which_one_failed_are_left_out() -> None:
    rounds = [{"ours": 30.0}, {"theirs": 10.0}, {"ours": 30.0, "theirs": 10.0}]

    found = ratio(rounds, "ours", "theirs")

    assert found == Spread(3.0, 3.0, 3.0, 1)


def test_no_common_round_gives_no_ratio() -> None:
    assert ratio([{"ours": 1.0}, {"theirs": 1.0}], "ours", "theirs") is None


def test_one_bad_round_does_not_move_the_median() -> None:
    assert Spread.of([2.0, 2.1, 1.9, 2.0, 40.0]).median == 2.0


@pytest.mark.parametrize(("percent", "expected"), [(0, 1.0), (50, 3.0), (100, 5.0), (25, 2.0), (90, 4.6)])
def test_percentiles_lie_between_neighbours(percent: float, expected: float) -> None:
    assert percentile([5.0, 1.0, 3.0, 2.0, 4.0], percent) == pytest.approx(expected)


@given(numbers)
def test_quartiles_enclose_the_median(values: list[float]) -> None:
    spread = Spread.of(values)

    assert min(values) <= spread.low <= spread.median <= spread.high <= max(values)


def test_no_values_have_no_spread() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Spread.of([])


def test_each_round_has_every_name_once_in_a_repeatable_order() -> None:
    names = list("abcdefgh")

    first, again = list(shuffled_rounds(names, 5, seed=3)), list(shuffled_rounds(names, 5, seed=3))

    assert first == again
    assert all(sorted(order) == names for order in first)
    assert len({tuple(order) for order in first}) > 1
