"""Fences of cancelled requests are kept for a limited time and number."""

from beacon_router.scheduling import RequestId
from beacon_router.service import cancelled_fences
from beacon_router.service.cancelled_fences import CancelledFences


def test_the_highest_fence_of_a_request_counts() -> None:
    broken = CancelledFences(retention_s=10)
    broken.add(RequestId("a"), 5, 0.0)
    broken.add(RequestId("a"), 3, 1.0)
    assert (broken.lowest_valid(RequestId("a")), broken.lowest_valid(RequestId("b"))) == (5, 0)


def test_old_fences_are_dropped() -> None:
    broken = CancelledFences(retention_s=10)
    broken.add(RequestId("a"), 5, 0.0)
    broken.add(RequestId("b"), 5, 9.0)
    broken.add(RequestId("c"), 5, 11.0)
    assert [broken.lowest_valid(RequestId(name)) for name in "abc"] == [0, 5, 5]


def test_the_number_of_fences_is_bounded() -> None:
    broken = CancelledFences(retention_s=1e9)
    for number in range(cancelled_fences.MAX_FENCES + 10):
        broken.add(RequestId(str(number)), 1, 0.0)
    assert len(broken) == cancelled_fences.MAX_FENCES
