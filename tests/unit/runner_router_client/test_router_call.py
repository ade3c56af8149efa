"""A request while routers restart, are full or are unavailable."""

from typing import Any

import pytest

from beacon_contracts.inference import InferenceState, InferenceView
from beacon_runner.ports.router import RouterBusy, RouterUnreachable
from beacon_runner.router_client.endpoints import RouterEndpoint, RouterEndpoints
from beacon_runner.router_client.replies import BusyReply, NoReply, UnknownReply
from beacon_runner.router_client.router_call import RouterCall

REFUSED = NoReply("connection refused", sent=False)
CUT = NoReply("connection lost", sent=True)
NOT_HEARD = BusyReply(1.0, "no more connections", was_read=False)
WAITING = InferenceView(
    request_id="r", state=InferenceState.QUEUED, model="m", requested_region="US", fence=1
)


class Trip:
    """A call and its routers, with a stopped clock."""

    def __init__(self, *addresses: str, max_tries: int = 5) -> None:
        self.routers = RouterEndpoints(addresses or ("http://a", "http://b"))
        self.call = RouterCall("US", max_tries)

    def accepted(self) -> bool:
        """Computed each time, because replies change it."""
        return self.call.accepted

    def next(self) -> RouterEndpoint:
        return self.call.choose_router(self.routers, 0.0)

    def learn(self, endpoint: RouterEndpoint, reply: Any, took_s: float = 25.0) -> float:
        return self.call.apply(endpoint, reply, now=0.0, took_s=took_s)


def test_a_call_stays_at_its_router() -> None:
    trip = Trip()
    home = trip.next()
    trip.learn(home, WAITING)
    home.in_flight = 1_000
    assert trip.accepted()
    assert trip.next() is home


def test_a_quick_reply_without_result_is_followed_by_a_pause() -> None:
    trip = Trip()
    home = trip.next()
    assert trip.learn(home, WAITING, took_s=0.01) > 0
    assert trip.learn(home, WAITING, took_s=25.0) == 0


def test_after_a_refused_connection_the_other_router_is_tried_at_once() -> None:
    trip = Trip()
    first = trip.next()
    assert trip.learn(first, REFUSED) == 0
    assert trip.next() is not first


def test_a_lost_connection_is_retried_where_the_run_may_be() -> None:
    trip = Trip()
    first = trip.next()
    trip.learn(first, CUT)
    assert trip.next() is first
    trip.learn(first, CUT)
    assert trip.next() is first
    trip.learn(first, CUT)
    assert trip.next() is not first
    assert not trip.accepted()


def test_the_request_is_sent_to_another_router_after_a_death() -> None:
    trip = Trip()
    home = trip.next()
    trip.learn(home, WAITING)
    trip.learn(home, CUT)
    assert trip.accepted()
    trip.learn(home, REFUSED)
    assert not trip.accepted()
    assert trip.next() is not home


def test_a_lost_request_is_sent_again() -> None:
    trip = Trip("http://only")
    home = trip.next()
    trip.learn(home, WAITING)
    assert trip.learn(home, UnknownReply()) == 0
    assert not trip.accepted()
    assert trip.next() is home
    assert home.failures == 0


def test_a_router_that_loses_each_request_is_unreachable() -> None:
    trip = Trip("http://only", max_tries=4)
    home = trip.next()
    pauses = []
    for _ in range(3):
        trip.learn(home, WAITING)
        pauses.append(trip.learn(home, UnknownReply()))
    assert pauses == [0.0, 0.25, 0.5]
    trip.learn(home, WAITING)
    with pytest.raises(RouterUnreachable, match="does not know"):
        trip.learn(home, UnknownReply())


def test_a_known_request_resets_the_count_of_losses() -> None:
    trip = Trip("http://only", max_tries=2)
    home = trip.next()
    for _ in range(20):
        trip.learn(home, WAITING)
        trip.learn(home, WAITING)
        trip.learn(home, CUT)


def test_tries_are_bounded_and_back_off() -> None:
    trip = Trip("http://only", max_tries=7)
    pauses = [trip.learn(trip.next(), REFUSED) for _ in range(6)]
    assert pauses == [0.0, 0.25, 0.5, 1.0, 2.0, 4.0]
    with pytest.raises(RouterUnreachable) as gone:
        trip.learn(trip.next(), REFUSED)
    assert gone.value.tries == 7
    assert "http://only" in str(gone.value)
    assert "connection refused" in str(gone.value)


def test_two_full_routers_are_busy() -> None:
    trip = Trip()
    first = trip.next()
    assert trip.learn(first, BusyReply(9.0, "queue full")) == 0
    second = trip.next()
    assert second is not first
    trip.learn(second, BusyReply(4.0, "no backend"))
    with pytest.raises(RouterBusy) as busy:
        trip.next()
    assert (busy.value.retry_after_s, busy.value.reason) == (4.0, "no backend")


def test_a_full_router_is_not_unhealthy() -> None:
    trip = Trip()
    first = trip.next()
    trip.learn(first, BusyReply(9.0, "queue full"))
    assert first.failures == 0


def test_a_stopping_router_is_replaced_by_the_other() -> None:
    trip = Trip()
    home = trip.next()
    trip.learn(home, WAITING)
    assert trip.learn(home, BusyReply(1.0, "stopping")) == 0
    assert not trip.accepted()
    assert trip.next() is not home


def test_a_router_without_free_connections_gets_no_new_request() -> None:
    trip = Trip()
    first = trip.next()
    assert trip.learn(first, NOT_HEARD) == 0
    second = trip.next()
    assert second is not first
    trip.learn(second, NOT_HEARD)
    with pytest.raises(RouterBusy) as busy:
        trip.next()
    assert (busy.value.retry_after_s, busy.value.reason) == (1.0, "no more connections")
    assert (first.failures, second.failures) == (0, 0)


@pytest.mark.parametrize("before", [WAITING, CUT])
def test_a_possible_run_stays_at_a_router_without_free_connections(before: Any) -> None:
    """The refusal says nothing about the run, and another router would start a second one."""
    trip = Trip()
    home = trip.next()
    trip.learn(home, before)
    accepted = trip.accepted()
    assert trip.learn(home, NOT_HEARD) == 1.0
    assert trip.accepted() == accepted
    assert trip.next() is home


def test_a_router_that_never_has_free_connections_is_unreachable() -> None:
    trip = Trip("http://only", max_tries=7)
    trip.learn(trip.next(), WAITING)
    assert [trip.learn(trip.next(), NOT_HEARD) for _ in range(6)] == [1.0, 1.0, 1.0, 1.0, 2.0, 4.0]
    with pytest.raises(RouterUnreachable, match="no more connections"):
        trip.learn(trip.next(), NOT_HEARD)


def test_invalid_replies_are_retried_a_bounded_number_of_times() -> None:
    trip = Trip("http://only", max_tries=3)
    only = trip.next()
    trip.learn(only, NoReply("status 502", sent=True))
    assert only.failures == 1
    trip.learn(only, NoReply("status 502", sent=True))
    with pytest.raises(RouterUnreachable, match="502"):
        trip.learn(only, NoReply("status 502", sent=True))


def test_a_region_without_router_is_named() -> None:
    with pytest.raises(RouterUnreachable, match="no router serves region US"):
        Trip("EU=http://eu").next()
