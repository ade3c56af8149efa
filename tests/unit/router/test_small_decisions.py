"""Breaker, backoff, wishes to wait, preferences: the pure parts of the shell."""

from datetime import UTC, datetime

import pytest

from beacon_router.backends.errors import read_retry_after
from beacon_router.backends.timings import measured
from beacon_router.http.prefer import AT_ONCE, UNTIL_DONE, read_preference
from beacon_router.scheduling import Health
from beacon_router.service.backoff import RetryPolicy
from beacon_router.service.breaker import Breaker

NOON = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def test_only_failures_in_a_row_open_the_breaker() -> None:
    breaker = Breaker(failures=3, open_s=10)
    for _ in range(5):
        breaker.failed(0)
        breaker.failed(0)
        assert breaker.succeeded() is Health.CLOSED

    assert [breaker.failed(now) for now in (1, 2, 3)] == [Health.CLOSED, Health.CLOSED, Health.OPEN]
    assert breaker.retry_at == 13


def test_failures_of_what_still_runs_do_not_prolong_the_pause() -> None:
    breaker = Breaker(failures=1, open_s=10)
    breaker.failed(0)
    breaker.failed(9)

    assert breaker.probe_due(9.9) is Health.OPEN
    assert breaker.probe_due(10) is Health.HALF_OPEN


def test_a_refused_probe_shows_that_it_lives() -> None:
    breaker = Breaker(failures=1, open_s=10)
    breaker.failed(0)
    breaker.probe_due(10)

    assert breaker.answered() is Health.CLOSED


def test_a_refusal_does_not_excuse_earlier_failures() -> None:
    breaker = Breaker(failures=2, open_s=10)
    breaker.failed(0)
    breaker.answered()

    assert breaker.failed(1) is Health.OPEN


def test_backoff_doubles_up_to_its_limit() -> None:
    policy = RetryPolicy(attempts=10, max_delay_s=60)
    delays = [policy.next_try(0, made=made, start_by=None) for made in range(1, 10)]

    assert delays == [2, 4, 8, 16, 32, 60, 60, 60, 60]


@pytest.mark.parametrize(
    ("made", "start_by", "due"),
    [(1, None, 102.0), (3, None, None), (1, 102.0, 102.0), (1, 101.9, None)],
)
def test_when_it_is_tried_again(made: int, start_by: float | None, due: float | None) -> None:
    policy = RetryPolicy(attempts=3, max_delay_s=60)

    assert policy.next_try(100, made=made, start_by=start_by) == due


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("Thu, 01 Jan 99999999999999999999 12:00:00 GMT", None),
        ("Thu, 01 Jan 2026 12:00:00 +99999999999999999999", None),
        ("999999999", 86_400.0),
    ],
)
def test_a_backends_wish_to_wait(header: str | None, seconds: float | None) -> None:
    assert read_retry_after(header, NOON) == seconds


@pytest.mark.parametrize(
    ("values", "wait_s", "applied"),
    [
        (["wait=25"], 25.0, "wait=25"),
        (["respond-async"], 0.0, "respond-async"),
        (["respond-async, wait=10"], 10.0, "wait=10"),
        (["respond-async", "wait=10"], 10.0, "wait=10"),
        (['Wait="5"; foo=bar'], 5.0, "wait=5"),
        (["wait=999999"], 3600.0, "wait=999999"),
        (["wait=-1"], None, None),
        (["wait=soon"], None, None),
        (["return=minimal"], None, None),
        ([""], None, None),
    ],
)
def test_preferences(values: list[str], wait_s: float | None, applied: str | None) -> None:
    preference = read_preference(values, UNTIL_DONE)

    assert (preference.wait_s, preference.applied) == (wait_s, applied)


def test_a_look_waits_only_when_asked_to() -> None:
    assert read_preference(["return=minimal"], AT_ONCE).wait_s == 0


@pytest.mark.parametrize(
    ("said", "load_s"),
    [
        (1.5, 1.5),
        (0, 0.0),
        (1e-300, 0.0),  # Postgres refuses what is too small for its column, and the result with it
        (-1.0, None),
        (float("inf"), None),
        (True, None),
        ("2", None),
        (None, None),
    ],
)
def test_of_the_seconds_that_a_backend_says_only_those_count_that_can_be_true(
    said: object, load_s: float | None
) -> None:
    assert measured("yes", {"load_s": said}).load_s == load_s
