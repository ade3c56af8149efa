"""The circuit breaker: when it opens, probes and closes."""

from beacon_lifecycle import BreakerState, CircuitBreaker


def test_only_consecutive_failures_open_the_breaker() -> None:
    breaker = CircuitBreaker(max_failures=3, open_s=10)
    for _ in range(5):
        breaker.record_failure(0)
        breaker.record_failure(0)
        breaker.record_success()
        assert breaker.closed

    states = []
    for now in (1, 2, 3):
        breaker.record_failure(now)
        states.append(breaker.state)
    assert states == [BreakerState.CLOSED, BreakerState.CLOSED, BreakerState.OPEN]
    assert breaker.retry_at == 13


def test_failures_of_older_calls_do_not_extend_the_pause() -> None:
    breaker = CircuitBreaker(max_failures=1, open_s=10)
    breaker.record_failure(0)
    breaker.record_failure(9)

    assert not breaker.half_open_if_due(9.9)
    assert breaker.half_open_if_due(10)


def test_one_call_probes_after_the_pause() -> None:
    breaker = CircuitBreaker(max_failures=1, open_s=10)
    breaker.record_failure(0)

    assert [breaker.try_call(now) for now in (5, 10, 11)] == [False, True, False]


def test_a_failed_probe_opens_the_breaker_again() -> None:
    breaker = CircuitBreaker(max_failures=3, open_s=10)
    for _ in range(3):
        breaker.record_failure(0)
    assert breaker.try_call(10)
    breaker.record_failure(12)

    assert [breaker.try_call(now) for now in (21, 22)] == [False, True]


def test_a_successful_probe_closes_the_breaker() -> None:
    breaker = CircuitBreaker(max_failures=1, open_s=10)
    breaker.record_failure(0)
    assert breaker.try_call(10)
    breaker.record_success()

    assert breaker.try_call(10)
    assert breaker.failures == 0
