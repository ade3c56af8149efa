"""Limits on requests, from counts."""

from hypothesis import given
from hypothesis import strategies as st

from beacon_contracts.ids import UserId, new_uuid
from beacon_runner.domain.limits.request_quota import (
    LocalRequests,
    RequestLimit,
    RequestQuota,
    reached_limit,
    refused,
)
from beacon_runner.http.rate_limit_headers import duration_text, request_limit_headers

USER = UserId(new_uuid())
quotas = st.builds(RequestQuota, st.none() | st.integers(1, 5), st.none() | st.integers(1, 5))
steps = st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=40)


@given(quotas, steps)
def test_no_window_has_more_starts_and_no_moment_more_runs_than_the_quota(
    quota: RequestQuota, arrivals: list[tuple[float, bool]]
) -> None:
    local, now, started, running = LocalRequests(), 0.0, list[float](), list[str]()
    for number, (pause_s, ends) in enumerate(arrivals):
        now += pause_s
        if ends and running:
            local.running.remove(running.pop(0))
        recent = [at for at in started if at + 60.0 > now]
        limit = reached_limit(quota, local.use(quota, now))
        by_rate = quota.requests_per_minute is not None and len(recent) >= quota.requests_per_minute
        by_running = quota.concurrent_requests is not None and len(running) >= quota.concurrent_requests
        assert (limit is not None) is (by_rate or by_running)
        if limit is None:
            local.add(str(number), now)
            started.append(now)
            running.append(str(number))


@given(st.integers(1, 5), st.lists(st.floats(0, 20), min_size=5, max_size=20))
def test_after_retry_after_one_more_request_may_start(limit: int, pauses: list[float]) -> None:
    quota, local, now = RequestQuota(requests_per_minute=limit), LocalRequests(), 0.0
    for number, pause_s in enumerate(pauses):
        now += pause_s
        use = local.use(quota, now)
        if reached_limit(quota, use) is not None:
            refusal = refused(USER, quota, use)
            assert refusal.reached is RequestLimit.REQUESTS_PER_MINUTE
            assert 0 < refusal.retry_after_s <= (refusal.requests_per_minute.reset_s or 0)
            now += refusal.retry_after_s + 1e-6
            assert reached_limit(quota, local.use(quota, now)) is None
        local.add(str(number), now)


def test_a_smaller_limit_waits_until_enough_requests_have_left() -> None:
    """A limit of 10 became 2 while 4 requests counted."""
    local = LocalRequests()
    for second in range(4):
        local.add(str(second), float(second))
    use = local.use(RequestQuota(requests_per_minute=2), 10.0)
    assert (use.started, use.room_in_s, use.clear_in_s) == (4, 52.0, 53.0)


def test_headers_have_the_format_of_openai() -> None:
    quota = RequestQuota(requests_per_minute=2, concurrent_requests=4)
    local = LocalRequests()
    for request_id in ("one", "two"):
        local.add(request_id, 0.0)
    headers = dict(request_limit_headers(refused(USER, quota, local.use(quota, 0.5))))
    assert headers == {
        b"x-ratelimit-limit-requests": b"2",
        b"x-ratelimit-remaining-requests": b"0",
        b"x-ratelimit-reset-requests": b"59.5s",
        b"x-ratelimit-limit-concurrent-requests": b"4",
        b"x-ratelimit-remaining-concurrent-requests": b"2",
    }
    texts = {0.0: "0ms", 0.12: "120ms", 1.0: "1s", 1.5: "1.5s", 360.0: "6m0s", 3_723.0: "1h2m3s"}
    assert {seconds: duration_text(seconds) for seconds in texts} == texts
