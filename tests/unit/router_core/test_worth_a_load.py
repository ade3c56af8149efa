"""When a free GPU takes in another model, and when its first in line stands aside."""

import pytest

from beacon_router.scheduling import (
    BackendSpec,
    Health,
    Holdup,
    ModelSpec,
    Outcome,
    Policy,
    Reason,
    RegionSpec,
    Request,
    RequestId,
    Scheduler,
    Start,
    Topology,
)

LOAD_S, RUN_S = 5.0, 6.0
PATIENCE = 5.0
FREE, ADMIN = 4, 0
BATCH = 3


class Gpus:
    """GPUs that each hold one of the models a, b and c; time goes on by hand."""

    def __init__(self, number: int, patience: float = PATIENCE) -> None:
        models = tuple(ModelSpec(name, expected_load_s=LOAD_S, expected_run_s=RUN_S) for name in "abc")
        names = frozenset("abc")
        backends = tuple(BackendSpec(f"gpu-{one}", "US", names) for one in range(number))
        self.scheduler = Scheduler(Topology((RegionSpec("US"),), backends, models), Policy(patience=patience))
        self.now = 0.0

    def ask(self, name: str, model: str, rank: int = FREE) -> list[str]:
        """Somebody comes; who starts then, and where."""
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
    """gpu-0 runs a and is expected to be free at 17; gpu-1 has run b until 11."""
    gpus = Gpus(2)
    gpus.ask("a1", "a")
    gpus.ask("b1", "b")
    gpus.now = 11.0
    assert gpus.end("a1") == []
    assert gpus.ask("a2", "a") == ["a2 on gpu-0"]
    assert gpus.end("b1") == []
    return gpus


def test_nobody_waits_where_nothing_is_in_use() -> None:
    gpus = Gpus(3)

    assert gpus.ask("a1", "a") == ["a1 on gpu-0"]
    assert gpus.ask("a2", "a") == ["a2 on gpu-1"]
    assert gpus.ask("b1", "b") == ["b1 on gpu-2"]


def test_what_no_gpu_holds_is_loaded_at_once(one_busy_and_one_just_used: Gpus) -> None:
    assert one_busy_and_one_just_used.ask("c1", "c") == ["c1 on gpu-1"]


def test_one_waits_for_the_gpu_that_holds_its_model(one_busy_and_one_just_used: Gpus) -> None:
    gpus = one_busy_and_one_just_used
    assert gpus.ask("a3", "a") == []
    why = gpus.scheduler.why(gpus.now, RequestId("a3"))
    assert why is not None
    assert why.holdup is Holdup.STANDS_ASIDE

    gpus.now = 17.0
    assert gpus.end("a2") == ["a3 on gpu-0"]


def test_but_no_longer_than_the_other_gpu_has_rested_for_the_loads_that_this_saves(
    one_busy_and_one_just_used: Gpus,
) -> None:
    gpus = one_busy_and_one_just_used
    gpus.ask("a3", "a")

    gpus.now = 11.0 + PATIENCE * 2 * LOAD_S
    assert gpus.scheduler.next_wakeup() == gpus.now
    assert gpus.next() == ["a3 on gpu-1"]


def test_nobody_waits_longer_because_one_of_a_higher_tier_came_who_waits_too(
    one_busy_and_one_just_used: Gpus,
) -> None:
    gpus = one_busy_and_one_just_used
    gpus.ask("a3", "a")
    gpus.now = 60.0
    assert gpus.ask("a4", "a", ADMIN) == []
    why = gpus.scheduler.why(gpus.now, RequestId("a3"))
    assert str(why) == "waits for gpu-0 with its model loaded rather than for a load in US"

    gpus.now = 11.0 + PATIENCE * 2 * LOAD_S
    assert gpus.scheduler.next_wakeup() == gpus.now
    assert gpus.next() == ["a4 on gpu-1"]


def test_nobody_waits_past_the_bound_because_of_one_of_a_higher_tier(
    one_busy_and_one_just_used: Gpus,
) -> None:
    gpus = one_busy_and_one_just_used
    gpus.ask("b2", "b")
    gpus.ask("a3", "a")
    gpus.now = 130.0
    gpus.ask("a4", "a", ADMIN)
    assert gpus.end("b2") == []

    gpus.now = 11.0 + Policy().tiers[FREE].starvation_bound_s
    assert gpus.scheduler.next_wakeup() == gpus.now
    assert gpus.next() == ["a3 on gpu-1"]


def test_who_stands_aside_looks_again_when_the_breaker_of_the_other_gpu_opens(
    one_busy_and_one_just_used: Gpus,
) -> None:
    gpus = one_busy_and_one_just_used
    gpus.ask("a3", "a")

    gpus.scheduler.set_health(gpus.now, "gpu-0", Health.OPEN)
    assert gpus.next() == ["a3 on gpu-1"]


def test_who_stands_aside_looks_again_when_the_other_gpu_loses_the_model(
    one_busy_and_one_just_used: Gpus,
) -> None:
    gpus = one_busy_and_one_just_used
    gpus.ask("a3", "a")

    gpus.scheduler.model_lost(gpus.now, "gpu-0")
    assert gpus.next() == ["a3 on gpu-1"]


def test_who_comes_next_after_one_that_stood_aside_has_its_own_patience(
    one_busy_and_one_just_used: Gpus,
) -> None:
    gpus = one_busy_and_one_just_used
    gpus.scheduler.model_lost(gpus.now, "gpu-1")
    gpus.now = 13.0
    gpus.ask("a3", "a")
    gpus.ask("a4", "a")
    assert gpus.scheduler.next_wakeup() == 13.0 + LOAD_S

    gpus.now = 14.0
    gpus.scheduler.cancel(gpus.now, RequestId("a3"))
    assert gpus.next() == []
    assert gpus.scheduler.next_wakeup() == 14.0 + LOAD_S


def test_of_those_who_wait_for_one_model_all_stand_aside_or_the_first_goes(
    one_busy_and_one_just_used: Gpus,
) -> None:
    gpus = one_busy_and_one_just_used
    gpus.ask("a3", "a")
    gpus.now = 61.0 - 0.5
    gpus.ask("b2", "b")
    gpus.ask("a4", "a", ADMIN)
    gpus.ask("c1", "c", ADMIN)
    gpus.now = 61.0
    assert gpus.end("b2") == ["a4 on gpu-1"]


def test_a_gpu_that_has_rested_for_so_long_is_taken_at_once(one_busy_and_one_just_used: Gpus) -> None:
    gpus = one_busy_and_one_just_used
    gpus.now = 100.0
    gpus.end("a2")
    gpus.ask("a3", "a")

    assert gpus.ask("a4", "a") == ["a4 on gpu-1"]


def test_a_load_is_worth_it_when_enough_wait(one_busy_and_one_just_used: Gpus) -> None:
    gpus = one_busy_and_one_just_used
    for number in range(3, 14):
        assert gpus.ask(f"a{number}", "a") == []
    gpus.now = gpus.scheduler.next_wakeup() or 0.0

    assert gpus.next() == ["a3 on gpu-1"]
    assert gpus.now == pytest.approx(11.0 + 4 * PATIENCE * LOAD_S * 2 / 11)  # by 11 of weight 1, on two GPUs


def test_however_many_wait_a_gpu_that_others_use_is_not_taken_from_them(
    one_busy_and_one_just_used: Gpus,
) -> None:
    gpus = one_busy_and_one_just_used
    for number in range(3, 14):
        gpus.ask(f"a{number}", "a")
    for number in range(2, 6):
        gpus.ask(f"b{number}", "b")
    gpus.now = 11.0 + 4 * PATIENCE * LOAD_S * 2 / 11 + 1.0

    reasons = []
    for number in range(2, 5):
        assert gpus.end(f"b{number}") == [f"b{number + 1} on gpu-1"]
        reasons += gpus.reasons
    assert reasons == [Reason.AFFINITY, Reason.AFFINITY, Reason.ORDER]  # b2 was the first of the batch


def test_a_higher_tier_needs_fewer(one_busy_and_one_just_used: Gpus) -> None:
    gpus = one_busy_and_one_just_used
    gpus.ask("a3", "a", ADMIN)

    assert gpus.scheduler.next_wakeup() == pytest.approx(11.0 + 4 * PATIENCE * LOAD_S * 2 / 16)


def test_a_gpu_behind_an_open_breaker_is_none_that_they_have() -> None:
    gpus = Gpus(3)
    for name in ("a1", "a2", "b1"):
        gpus.ask(name, name[0])
    gpus.now = 11.0
    gpus.end("b1")
    gpus.scheduler.set_health(gpus.now, "gpu-1", Health.OPEN)
    assert gpus.ask("a3", "a", ADMIN) == []

    assert gpus.scheduler.next_wakeup() == pytest.approx(11.0 + 4 * PATIENCE * LOAD_S * 2 / 16)


def test_without_patience_nobody_waits_beside_a_free_gpu() -> None:
    gpus = Gpus(2, patience=0.0)
    gpus.ask("a1", "a")
    gpus.ask("b1", "b")
    gpus.now = 11.0
    gpus.end("b1")

    assert gpus.ask("a2", "a") == ["a2 on gpu-1"]


@pytest.mark.parametrize("tier", [FREE, FREE - 1, ADMIN], ids=["same tier", "next tier", "highest tier"])
@pytest.mark.parametrize("number", [1, 2])
def test_at_most_three_of_the_loaded_model_go_before_the_first_of_the_line(number: int, tier: int) -> None:
    """However many wait for what the GPUs hold, and whoever waits for the other model."""
    gpus = Gpus(number)
    running = [gpus.ask(f"running {one}", "a")[0] for one in range(number)]
    for one in range(5):
        gpus.ask(f"earlier {one}", "a")
    gpus.ask("other", "b", tier)
    for one in range(5 * number):
        gpus.ask(f"later {one}", "a")

    before: list[str] = []
    while not any(start.startswith("other") for start in running):
        gpus.now += RUN_S
        started = gpus.end(_name(running.pop(0)))
        running += started
        before += started

    in_line = 5 if tier == FREE else 0
    assert len(before) - 1 == in_line + BATCH


def _name(start: str) -> str:
    """Of a start as `Gpus` tells it."""
    return start.split(" on ", maxsplit=1)[0]
