"""Which errors are answered as an unavailable queue, and which are defects."""

import pytest

from beacon_runner.domain.errors import QueueUnavailableError
from beacon_runner.http.problems import problem_of


def test_an_unavailable_queue_is_a_503() -> None:
    problem, _ = problem_of(QueueUnavailableError("no reply"))
    assert (problem.status, problem.code) == (503, "queue_unavailable")


@pytest.mark.parametrize("error", [OSError("disk full"), TimeoutError("own timeout")])
def test_an_error_of_own_code_is_a_defect(error: Exception) -> None:
    problem, _ = problem_of(error)
    assert (problem.status, problem.code) == (500, "internal_error")
