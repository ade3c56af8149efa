"""Which router is called: least busy, healthy, serving the region."""

import pytest

from beacon_runner.router_client.endpoints import RouterEndpoints


def urls(*addresses: str) -> RouterEndpoints:
    return RouterEndpoints(addresses)


def test_the_least_busy_is_chosen() -> None:
    routers = urls("http://a", "http://b", "http://c")
    a, b, c = routers.all
    a.in_flight, b.in_flight, c.in_flight = 3, 1, 2
    assert routers.choose("US", now=0.0) is b


def test_equally_busy_routers_are_used_round_robin() -> None:
    routers = urls("http://a", "http://b", "http://c")
    chosen = [routers.choose("US", now=0.0) for _ in range(6)]
    assert sorted(chosen, key=id) == sorted([*routers.all, *routers.all], key=id)


def test_pauses_of_a_failing_router_grow() -> None:
    routers = urls("http://a", "http://b")
    a, b = routers.all
    b.in_flight = 10
    assert routers.choose("US", now=0.0) is a
    rests = []
    for _ in range(7):
        a.record_failure(now=0.0)
        rests.append(a.backoff_until)
    assert rests == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0]
    assert routers.choose("US", now=9.9) is b
    assert routers.choose("US", now=10.0) is a
    a.record_success()
    a.record_failure(now=20.0)
    assert a.backoff_until == 20.25


def test_requests_that_were_lost_together_are_one_failure() -> None:
    (router,) = urls("http://a").all
    for now in (5.0, 5.1, 5.2):
        router.record_failure(now, sent_at=4.0)
    assert (router.failures, router.is_unavailable(5.2)) == (1, False)
    router.record_failure(6.0, sent_at=5.5)
    assert router.failures == 2


def test_when_all_routers_pause_the_first_to_end_is_tried() -> None:
    routers = urls("http://a", "http://b")
    a, b = routers.all
    a.record_failure(now=0.0)
    a.record_failure(now=0.0)
    b.record_failure(now=0.0)
    assert routers.choose("US", now=0.0) is b


def test_an_address_can_serve_some_regions_only() -> None:
    routers = urls("US=http://us:8100", "EU+ASIA=https://east:8100/", "http://all:8100")
    us, east, everywhere = routers.all
    assert east.url == "https://east:8100"
    assert {routers.choose("eu", now=0.0) for _ in range(4)} == {east, everywhere}
    assert {routers.choose("US", now=0.0) for _ in range(4)} == {us, everywhere}
    assert urls("US=http://us:8100").choose("EU", now=0.0) is None


def test_an_address_with_an_equals_sign_in_its_path_is_one_address() -> None:
    (only,) = urls("http://a/x=http").all
    assert only.url == "http://a/x=http"
    assert only.serves("anything")


@pytest.mark.parametrize("bad", ["localhost:8100", "ftp://a", "http://", "US=localhost"])
def test_an_invalid_address_is_named(bad: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        urls(bad)


def test_a_missing_address_names_the_variable() -> None:
    with pytest.raises(ValueError, match="BEACON_ROUTER_URLS"):
        urls("", "  ")
