"""Which jobs that wait for a limit may start."""

import pytest

from beacon_runner.domain.limits.job_quota import Allowance, Use, admissible


@pytest.mark.parametrize(
    ("in_flight", "waiting", "started"),
    [
        (0, [3, 3, 3], 2),
        (4, [3, 2], 0),
        (4, [2, 1], 1),
        (1, [7, 1], 0),
        (0, [7, 1], 1),
        (0, [1, 7], 1),
    ],
)
def test_a_job_larger_than_a_lowered_limit_starts_alone(
    in_flight: int, waiting: list[int], started: int
) -> None:
    """It would wait for ever, and the user's later jobs behind it."""
    allowance = Allowance(in_flight_executions=6)
    assert admissible(allowance, Use(in_flight=in_flight), waiting) == started
