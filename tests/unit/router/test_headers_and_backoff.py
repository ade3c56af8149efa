"""Backoff, Retry-After, Prefer and reported durations."""

from datetime import UTC, datetime

import pytest

from beacon_router.backends.errors import parse_retry_after
from beacon_router.backends.http_backend import timed_result
from beacon_router.http.prefer import IMMEDIATELY, UNTIL_DONE, parse_preference
from beacon_router.service.run_rules import BackoffPolicy

NOON = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def test_backoff_doubles_up_to_its_limit() -> None:
    policy = BackoffPolicy(attempts=10, max_delay_s=60)
    delays = [policy.next_attempt_at(0, attempts_made=made, start_by=None) for made in range(1, 10)]

    assert delays == [2, 4, 8, 16, 32, 60, 60, 60, 60]


@pytest.mark.parametrize(
    ("made", "start_by", "due"),
    [(1, None, 102.0), (3, None, None), (1, 102.0, 102.0), (1, 101.9, None)],
)
def test_the_time_of_the_next_attempt(made: int, start_by: float | None, due: float | None) -> None:
    policy = BackoffPolicy(attempts=3, max_delay_s=60)

    assert policy.next_attempt_at(100, attempts_made=made, start_by=start_by) == due


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
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header, NOON) == seconds


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
    preference = parse_preference(values, UNTIL_DONE)

    assert (preference.wait_s, preference.applied) == (wait_s, applied)


def test_a_get_waits_only_with_prefer() -> None:
    assert parse_preference(["return=minimal"], IMMEDIATELY).wait_s == 0


@pytest.mark.parametrize(
    ("said", "load_s"),
    [
        (1.5, 1.5),
        (0, 0.0),
        (1e-300, 0.0),  # too small for the column that stores it
        (-1.0, None),
        (float("inf"), None),
        (True, None),
        ("2", None),
        (None, None),
    ],
)
def test_implausible_durations_of_a_backend_are_ignored(said: object, load_s: float | None) -> None:
    assert timed_result("yes", {"load_s": said}).load_s == load_s
