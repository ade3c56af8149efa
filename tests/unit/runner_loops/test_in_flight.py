"""What a process may have in flight: stalled lanes never take the room of others."""

import pytest

from beacon_runner.worker.in_flight import InFlight


def claim(in_flight: InFlight, demand: dict[str, int], limit: int, size: int = 1) -> dict[str, int]:
    """One claim as the queue does it: round-robin over the lanes that are not full."""
    room, full = in_flight.claimable()
    waiting = {lane: count for lane, count in demand.items() if count and lane not in full}
    taken = dict.fromkeys(waiting, 0)
    for _ in range(min(limit, room)):
        lane = min(waiting, key=lambda name: taken[name], default=None)
        if lane is None:
            break
        taken[lane] += 1
        waiting[lane] -= 1
        demand[lane] -= 1
        if not waiting[lane]:
            del waiting[lane]
        in_flight.add(lane, size)
    return taken


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_stalled_lanes_leave_room_for_others(limit: int) -> None:
    """They come one after another, each with more than it may have in flight."""
    in_flight = InFlight(max_jobs=8_192)
    for number in range(90):
        stalled = {f"stalled-{number}": 10_000}
        while sum(claim(in_flight, stalled, limit).values()):
            pass
        other = {f"other-{number}": 1}
        assert claim(in_flight, other, limit) == {f"other-{number}": 1}
    assert 7_000 < in_flight.jobs < 8_192


def test_a_single_lane_has_many_jobs_in_flight() -> None:
    in_flight = InFlight(max_jobs=8_192)
    demand = {"one": 10_000}
    while sum(claim(in_flight, demand, 100).values()):
        pass
    assert 400 < in_flight.jobs < 600


def test_large_inputs_of_one_lane_leave_room_for_others() -> None:
    in_flight = InFlight(max_jobs=10_000, max_bytes=100_000, max_job_bytes=100)
    demand = {"large": 1_000}
    while sum(claim(in_flight, demand, 10, size=100).values()):
        pass
    assert 5_000 <= in_flight.bytes <= 7_000
    demand["small"] = 5
    assert claim(in_flight, demand, 10)["small"] == 5


def test_inputs_never_exceed_the_bytes_even_if_all_are_as_large_as_may_be() -> None:
    in_flight = InFlight(max_jobs=1_000, max_bytes=1_050, max_job_bytes=100)
    demand = {f"lane-{number}": 1 for number in range(100)}
    while sum(claim(in_flight, demand, 100, size=100).values()):
        pass
    assert in_flight.bytes == 1_000


def test_a_lane_has_its_own_limit() -> None:
    in_flight = InFlight(max_jobs=1_000, lane_jobs=3)
    demand = {"one": 100, "two": 1}
    while sum(claim(in_flight, demand, 2).values()):
        pass
    assert demand == {"one": 97, "two": 0}


def test_a_job_that_leaves_makes_room() -> None:
    rooms: list[str] = []
    in_flight = InFlight(max_jobs=1, on_room=[lambda: rooms.append("room")])
    in_flight.add("lane", 5)
    assert in_flight.claimable() == (0, ["lane"])
    in_flight.remove("lane", 5)
    assert (rooms, in_flight.claimable(), in_flight.bytes) == (["room"], (1, []), 0)
