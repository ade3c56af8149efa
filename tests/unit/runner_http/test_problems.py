"""Which errors are answered as an unavailable queue, and which are defects."""

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from beacon_runner.http.problems import problem_of


@pytest.mark.parametrize("error", [RedisConnectionError("closed"), RedisTimeoutError("no reply")])
def test_a_redis_error_is_an_unavailable_queue(error: Exception) -> None:
    problem, _ = problem_of(error)
    assert (problem.status, problem.code) == (503, "queue_unavailable")


@pytest.mark.parametrize("error", [OSError("disk full"), TimeoutError("own timeout")])
def test_an_error_of_own_code_is_a_defect(error: Exception) -> None:
    problem, _ = problem_of(error)
    assert (problem.status, problem.code) == (500, "internal_error")
