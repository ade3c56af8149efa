"""A slow answer is not a wrong clock."""

import pytest

from beacon_client.skew import is_skewed, skew_of


@pytest.mark.parametrize(
    ("theirs", "answered", "skew_s"),
    [
        (100.0, 100.0, 0.0),
        (103.0, 130.0, 0.0),  # half a minute for an answer, of a clock that may well agree
        (40.0, 130.0, 60.0),
        (190.0, 130.0, -60.0),
    ],
)
def test_only_a_moment_outside_of_question_and_answer_shows_a_difference(
    theirs: float, answered: float, skew_s: float
) -> None:
    assert skew_of(theirs, asked=100.0, answered=answered) == skew_s
    assert is_skewed(skew_s) == (skew_s != 0)
