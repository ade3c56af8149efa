"""A slow response is not clock skew."""

import pytest

from beacon_cli.checks.clock_skew import is_skewed, skew_of


@pytest.mark.parametrize(
    ("theirs", "received_at", "skew_s"),
    [
        (100.0, 100.0, 0.0),
        (103.0, 130.0, 0.0),  # a slow response of a clock that may agree
        (40.0, 130.0, 60.0),
        (190.0, 130.0, -60.0),
    ],
)
def test_only_a_time_outside_of_the_exchange_shows_skew(
    theirs: float, received_at: float, skew_s: float
) -> None:
    assert skew_of(theirs, sent_at=100.0, received_at=received_at) == skew_s
    assert is_skewed(skew_s) == (skew_s != 0)
