"""The size of a request, and values that are no size."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_router.http.work_size import MAX_WORK_SIZE, size_of, work_size

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("value", "size"), [(30, 30.0), (2.5, 2.5), ("four", 4.0), (MAX_WORK_SIZE, MAX_WORK_SIZE)]
)
def test_a_number_counts_as_it_is_and_a_text_by_its_length(value: object, size: float) -> None:
    assert size_of(value) == size


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -0.0, -3, "", math.nan, math.inf, -math.inf, 1e13, 10**400, [30], {"duration": 3}],
)
def test_other_values_have_no_size(value: object) -> None:
    assert size_of(value) is None


@given(JSON)
def test_any_value_is_a_size_or_unknown(value: object) -> None:
    size = size_of(value)

    assert size is None or 0 < size <= MAX_WORK_SIZE


def test_the_size_is_read_from_params_before_input() -> None:
    assert work_size("duration", {}, {"duration": 8}) == 8.0
    assert work_size("duration", {"duration": 5}, {"duration": 8}) == 8.0
    assert work_size("duration", {"duration": 600}, {"duration": 1}) == 600.0
    assert work_size("duration", {"duration": None}, {"duration": 8}) == 8.0
    assert work_size("duration", {}, {"prompt": "a bell"}) is None


def test_a_model_without_the_setting_has_no_sizes() -> None:
    assert work_size(None, {"duration": 5}, {"duration": 8}) is None
