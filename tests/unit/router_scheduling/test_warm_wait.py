"""When a free GPU loads another model, and when a request waits for a warm one."""

from itertools import pairwise

import pytest

from beacon_router.scheduling import (
    BackendSpec,
    Health,
    Holdup,
    ModelSpec,
    Outcome,
    Policy,
    RegionSpec,
    Request,
    RequestId,
    Scheduler,
    Start,
    Topology,
)

LOAD_S, RUN_S = 5.0, 8.0
MAX_LOADS = 5.0
FREE, ADMIN = 4, 0
BATCH = 3


class Gpus:
    """GPUs that each hold one of the models a, b and c; the test sets the time."""

    def __init__(self, number: int, max_loads: float = MAX_LOADS) -> None:
        models = tuple(ModelSpec(name, expected_load_s=LOAD_S, expected_run_s=RUN_S) for name in "abc")
        names = frozenset("abc")
        backends = tuple(BackendSpec(f"gpu-{one}", "US", names) for one in range(number))
        self.scheduler = Scheduler(
            Topology((RegionSpec("US"),), backends, models), Policy(warm_wait_max_loads=max_loads)
        )
        self.now = 0.0

    def submit(self, name: str, model: str, rank: int = FREE) -> list[str]:
        """Submit a request; returns what starts then, and where."""
        self.scheduler.submit(self.now, Request(RequestId(name), model, "US", rank))
        return self.next()

    def end(self, name: str) -> list[str]:
        self.scheduler.finished(self.now, RequestId(name), Outcome.COMPLETED, run_s=RUN_S)
        return self.next()

    def next(self) -> list[str]:
        starts = [start for start in self.scheduler.next(self.now) if isinstance(start, Start)]
        self.reasons = [start.reason for start in starts]
        return [f"{start.id} on {start.backend}" for start in starts]


@pytest.fixture
def one_busy_and_one_just_used() -> Gpus:
    """gpu-0 runs a and is expected to be free at 19; gpu-1 has run b until 11."""
    gpus = Gpus(2)
    gpus.submit("a1", "a")
    gpus.submit("b1", "b")
    gpus.now = 11.0
    assert gpus.end("a1") == []
    assert gpus.submit("a2", "a") == ["a2 on gpu-0"]
    assert gpus.end("b1") == []
    return gpus


def test_no_request_waits_while_all_gpus_are_idle() -> None:
    gpus = Gpus(3)

    assert gpus.submit("a1", "a") == ["a1 on gpu-0"]
    assert gpus.submit("a2", "a") == ["a2 on gpu-1"]
    assert gpus.submit("b1", "b") == ["b1 on gpu-2"]


def test_a_model_that_no_gpu_has_loaded_is_loaded_at_once(one_busy_and_one_just_used: Gpus) -> None:
    assert one_busy_and_one_just_used.submit("c1", "c") == ["c1 on gpu-1"]


def test_a_request_waits_for_the_gpu_with_its_model_loaded(one_busy_and_one_just_used: Gpus) -> None:
    gpus = one_busy_and_one_just_used
    assert gpus.submit("a3", "a") == []
    why = gpus.scheduler.why(gpus.now, RequestId("a3"))
    assert why is not None
    assert why.holdup is Holdup.WARM_WAIT

    gpus.now = 19.0
    assert gpus.end("a2") == ["a3 on gpu-0"]


def test_a_warm_wait_ends_when_the_breaker_of_the_other_gpu_opens(
    one_busy_and_one_just_used: Gpus,
) -> None:
    gpus = one_busy_and_one_just_used
    gpus.submit("a3", "a")

    gpus.scheduler.set_health("gpu-0", Health.OPEN)
    assert gpus.next() == ["a3 on gpu-1"]


def test_a_warm_wait_ends_when_the_other_gpu_loses_the_model(
    one_busy_and_one_just_used: Gpus,
) -> None:
    gpus = one_busy_and_one_just_used
    gpus.submit("a3", "a")

    gpus.scheduler.model_lost("gpu-0")
    assert gpus.next() == ["a3 on gpu-1"]


def test_a_load_starts_when_the_backlog_takes_longer_than_the_wait(
    one_busy_and_one_just_used: Gpus,
) -> None:
    gpus = one_busy_and_one_just_used
    assert gpus.submit("a3", "a") == []

    assert gpus.submit("a4", "a") == ["a3 on gpu-1"]  # 8 s until the slot is free, and a run of 8 s


def test_the_wait_ends_when_the_warm_slot_is_late(one_busy_and_one_just_used: Gpus) -> None:
    gpus = one_busy_and_one_just_used
    gpus.submit("a3", "a")

    wakeup = gpus.scheduler.next_wakeup()
    assert wakeup is not None
    assert wakeup == pytest.approx(19.0 + 2.5 * LOAD_S)
    gpus.now = wakeup
    assert gpus.next() == ["a3 on gpu-1"]


def test_a_tier_above_the_median_weight_waits_for_at_most_one_load(one_busy_and_one_just_used: Gpus) -> None:
    gpus = one_busy_and_one_just_used

    assert gpus.submit("admin", "a", ADMIN) == ["admin on gpu-1"], (
        "the warm slot is free in 8 s, a load takes 5"
    )


def test_without_warm_waits_no_request_waits_next_to_a_free_gpu() -> None:
    gpus = Gpus(2, max_loads=0.0)
    gpus.submit("a1", "a")
    gpus.submit("b1", "b")
    gpus.now = 11.0
    gpus.end("b1")

    assert gpus.submit("a2", "a") == ["a2 on gpu-1"]


@pytest.mark.parametrize("tier", [FREE, FREE - 1, ADMIN], ids=["same tier", "next tier", "highest tier"])
@pytest.mark.parametrize("number", [1, 2])
def test_at_most_three_of_the_loaded_model_start_before_the_first(number: int, tier: int) -> None:
    """However many requests wait for the loaded models; none before a tier above the median weight."""
    gpus = Gpus(number)
    running = [gpus.submit(f"running {one}", "a")[0] for one in range(number)]
    for one in range(5):
        gpus.submit(f"earlier {one}", "a")
    gpus.submit("other", "b", tier)
    for one in range(5 * number):
        gpus.submit(f"later {one}", "a")

    before: list[str] = []
    while not any(start.startswith("other") for start in running):
        gpus.now += RUN_S
        started = gpus.end(_name(running.pop(0)))
        running += started
        before += started

    in_line = 5 if tier == FREE else 0
    assert len(before) - 1 == in_line + (0 if tier == ADMIN else BATCH)


def test_the_first_starts_without_further_jumps_after_a_warm_wait() -> None:
    """The wait for a1's GPU ends when it loses the model; the batch was used up meanwhile."""
    gpus = Gpus(2)
    gpus.submit("a1", "a")
    gpus.submit("b1", "b")
    gpus.submit("a2", "a", ADMIN)
    for one in range(2, 12):
        gpus.submit(f"b{one}", "b")
    gpus.now = 11.0
    overtaking = [f"b{one}" for one in range(1, BATCH + 2)]
    for name, following in zip(overtaking, [*overtaking[1:], f"b{BATCH + 2}"], strict=True):
        assert gpus.end(name) == [f"{following} on gpu-1"]

    gpus.scheduler.model_lost("gpu-0")
    assert gpus.end(f"b{BATCH + 2}") == ["a2 on gpu-1"]


def _name(start: str) -> str:
    """Of a start in the form of `Gpus.next`."""
    return start.split(" on ", maxsplit=1)[0]


def test_the_model_with_the_least_demand_is_evicted() -> None:
    gpus = Gpus(2, max_loads=0.0)
    for number, model in enumerate("aab"):
        gpus.now = 100.0 * number
        gpus.submit(f"{number}", model)
        gpus.end(f"{number}")

    assert gpus.submit("c1", "c") == ["c1 on gpu-1"]  # which was used last, but for a single request


def test_requests_of_an_urgent_tier_for_several_models_share_loads() -> None:
    """As a matrix of two models submits them, in turns."""
    gpus = Gpus(1)
    for number in range(4):
        for model in "ab":
            gpus.submit(f"{model}{number}", model, ADMIN)
    started = ["a0"]
    while len(started) < 8:
        gpus.now += RUN_S
        started += [start.split()[0] for start in gpus.end(started[-1])]

    changes = sum(one[0] != other[0] for one, other in pairwise(started))
    assert changes == 1, started


def test_no_lower_tier_jumps_before_an_urgent_one() -> None:
    gpus = Gpus(1)
    gpus.submit("a0", "a", ADMIN)
    gpus.submit("a1", "a", FREE)
    gpus.submit("b0", "b", ADMIN)

    assert gpus.end("a0") == ["b0 on gpu-0"]
