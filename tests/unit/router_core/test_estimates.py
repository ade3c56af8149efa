"""Waits are foretold by the scheduler's own rules, and better with experience."""

from itertools import islice
from random import Random

import pytest

from beacon_router.scheduling import (
    BackendSpec,
    Health,
    ModelSpec,
    Outcome,
    RegionSpec,
    Request,
    RequestId,
    Scheduler,
    Topology,
)
from beacon_router.scheduling.hindsight import Hindsight, Quantile
from beacon_router.scheduling.lanes import Lane, Queue
from beacon_router.scheduling.pools import Pool

MODELS = (
    ModelSpec("a", expected_load_s=2.0, expected_run_s=10.0),
    ModelSpec("b", expected_load_s=2.0, expected_run_s=10.0),
    ModelSpec("alone", expected_load_s=2.0, expected_run_s=10.0, exclusive=True),
)
NAMES = frozenset(model.name for model in MODELS)


def _scheduler(gpus: int = 1, *, regions: tuple[str, ...] = ("US",)) -> Scheduler:
    backends = tuple(
        BackendSpec(f"{region}-{number}", region, NAMES) for region in regions for number in range(gpus)
    )
    return Scheduler(Topology(tuple(RegionSpec(region) for region in regions), backends, MODELS))


def _submit(
    scheduler: Scheduler,
    name: str,
    model: str = "a",
    rank: int = 4,
    *,
    front: bool = False,
    size: float | None = None,
) -> None:
    scheduler.submit(0.0, Request(RequestId(name), model, "US", rank, front=front, size=size))
    scheduler.next(0.0)


def _p50(scheduler: Scheduler, name: str, now: float = 0.0) -> float:
    eta = scheduler.eta(now, RequestId(name))
    assert eta is not None
    return eta.p50_s


def test_the_line_is_played_run_by_run() -> None:
    scheduler = _scheduler()
    for name in ("first", "second", "third"):
        _submit(scheduler, name)

    assert _p50(scheduler, "second") == pytest.approx(12.0)  # the load and the run of the first
    assert _p50(scheduler, "third") == pytest.approx(22.0)
    assert scheduler.eta(0.0, RequestId("first")) is None


def _run(scheduler: Scheduler, number: int, size: float | None, run_s: float) -> None:
    request = Request(RequestId(f"seen {number}"), "a", "US", 4, size=size)
    scheduler.submit(0.0, request)
    scheduler.next(0.0)
    scheduler.finished(0.0, request.id, Outcome.COMPLETED, run_s=run_s)


def test_waits_behind_large_requests_are_foretold_as_longer_once_sizes_have_been_seen() -> None:
    scheduler = _scheduler()
    for number in range(40):
        size = (1.0, 3.0)[number % 2]
        _run(scheduler, number, size, 4.0 * size)
    scheduler.model_loaded(0.0, "US-0", "a")
    for name, told in (("running", 1.0), ("small", 1.0), ("large", 3.0), ("unknown", None), ("last", 1.0)):
        _submit(scheduler, name, size=told)

    assert _p50(scheduler, "small") == pytest.approx(4.0, rel=0.1)
    assert _p50(scheduler, "large") == pytest.approx(8.0, rel=0.1)
    assert _p50(scheduler, "unknown") == pytest.approx(20.0, rel=0.1)
    assert _p50(scheduler, "last") == pytest.approx(28.0, rel=0.1)


def test_a_run_of_a_known_size_that_is_late_is_expected_to_end_sooner_than_one_of_any_size() -> None:
    told, silent = _scheduler(), _scheduler()
    chance = Random(1)
    for number in range(40):
        size = chance.uniform(5.0, 15.0)
        run_s = size * chance.uniform(0.9, 1.1)
        _run(told, number, size, run_s)
        _run(silent, number, None, run_s)
    for name in ("late", "waiting"):
        _submit(told, name, size=10.0)
        _submit(silent, name)

    assert _p50(told, "waiting", now=30.0) < 0.5 * _p50(silent, "waiting", now=30.0)


def test_a_rush_is_expected_to_go_on_for_as_long_as_it_has_lasted_and_then_to_be_over() -> None:
    pool = Pool("US", [], ranks=1)
    lane = Lane(Queue.MAIN, "US", "a", 0, movable=True, pool=pool, line=pool.ranks[0])
    quiet, rush = range(0, 1_600, 50), range(1_600, 1_632)
    pool.arrived.extend((float(moment), lane) for moment in (*quiet, *rush))

    again = [moment - 1_632.0 for moment, _ in islice(pool.arrivals_again(1_632.0), 64)]

    assert again == sorted(again)
    assert again[31] == pytest.approx(32.0)
    assert again[63] == pytest.approx(1_632.0)


def test_more_slots_shorten_the_wait() -> None:
    one, two = _scheduler(1), _scheduler(2)
    for scheduler in (one, two):
        for number in range(5):
            _submit(scheduler, f"r{number}")

    assert _p50(two, "r4") < 0.6 * _p50(one, "r4")


def test_a_batch_of_the_loaded_model_and_a_load_come_before_the_other_model() -> None:
    scheduler = _scheduler()
    _submit(scheduler, "running")
    _submit(scheduler, "other model", "b")
    for number in range(2):
        _submit(scheduler, f"same model {number}")

    assert _p50(scheduler, "same model 0") == pytest.approx(12.0)
    assert _p50(scheduler, "other model") == pytest.approx(32.0)


def test_who_pays_or_has_a_better_tier_is_told_less() -> None:
    scheduler = _scheduler()
    _submit(scheduler, "running")
    for number in range(4):
        _submit(scheduler, f"free {number}", "b")
    _submit(scheduler, "admin", "b", rank=0)
    _submit(scheduler, "paid", "b", front=True)

    assert _p50(scheduler, "paid") < _p50(scheduler, "admin") < _p50(scheduler, "free 0")


def test_an_exclusive_model_runs_one_at_a_time_in_the_rehearsal_too() -> None:
    scheduler = _scheduler(gpus=4)
    for number in range(3):
        _submit(scheduler, f"r{number}", "alone")

    assert _p50(scheduler, "r1") == pytest.approx(12.0)
    assert _p50(scheduler, "r2") == pytest.approx(22.0, abs=2.5)


def test_a_retry_is_told_the_wait_of_the_region_that_is_free_first() -> None:
    scheduler = _scheduler(regions=("US", "EU", "ASIA"))
    for region, run in (("EU", "long"), ("ASIA", "short")):
        scheduler.submit(0.0, Request(RequestId(run), "a", region, 0))
    scheduler.next(0.0)
    scheduler.retry(8.0, Request(RequestId("again"), "a", "US", 0), failed_in="US")
    scheduler.model_loaded(8.0, "EU-0", "a")

    assert [start.id for start in scheduler.next(8.0)] == []
    assert _p50(scheduler, "again", now=8.0) == pytest.approx(4.0)


def test_what_no_backend_can_take_now_still_has_an_estimate() -> None:
    scheduler = _scheduler()
    scheduler.set_health(0.0, "US-0", Health.OPEN)
    for number in range(3):
        _submit(scheduler, f"r{number}")

    assert 0.0 <= _p50(scheduler, "r0") <= _p50(scheduler, "r2")


def test_a_long_line_is_told_longer_waits_the_further_back_one_stands() -> None:
    scheduler = _scheduler(gpus=2)
    for number in range(2_000):
        _submit(scheduler, f"r{number}", "ab"[number % 2])

    told = [_p50(scheduler, f"r{number}") for number in (10, 100, 500, 1_000, 1_999)]

    assert told == sorted(told)
    assert told[-1] == pytest.approx(10 * 2_000 / 2, rel=0.35)


def test_one_that_would_come_now_is_told_what_the_next_one_gets() -> None:
    scheduler = _scheduler()
    assert scheduler.eta_of_new(0.0, "a", "US", 4).p50_s == 0.0
    _submit(scheduler, "running")
    assert scheduler.eta_of_new(1.0, "a", "US", 4).p50_s == pytest.approx(11.0)
    for number in range(3):
        _submit(scheduler, f"r{number}")
    assert scheduler.eta_of_new(1.0, "a", "US", 4).p50_s > 30.0


def test_estimates_learn_from_waits_that_came_out_twice_as_long() -> None:
    scheduler = _scheduler()
    now, told = 0.0, None
    for number in range(60):
        for one in ("running", "waiting"):
            scheduler.submit(now, Request(RequestId(f"{one} {number}"), "a", "US", 4))
            scheduler.next(now)
        told = scheduler.eta(now, RequestId(f"waiting {number}"))
        now += 20.0
        for one in ("running", "waiting"):  # runs take what is expected, but slots come back late
            scheduler.finished(now, RequestId(f"{one} {number}"), Outcome.COMPLETED, run_s=10.0)
            scheduler.next(now)

    assert told is not None
    assert told.p50_s == pytest.approx(20.0, rel=0.2)
    assert told.p90_s >= told.p50_s


def test_a_running_quantile_comes_near_the_true_one() -> None:
    chance = Random(1)
    p90 = Quantile(0.9, guess=5.0)
    for _ in range(3_000):
        p90.add(chance.random())

    assert p90.value == pytest.approx(0.9, abs=0.06)


def test_experience_with_one_tier_and_scale_says_nothing_of_another() -> None:
    hindsight = Hindsight(kinds=2)
    for _ in range(200):
        hindsight.learn(0, expected_s=10.0, waited_s=30.0)

    assert hindsight.corrected(0, 10.0)[0] == pytest.approx(30.0, rel=0.1)
    assert hindsight.corrected(1, 10.0)[0] == pytest.approx(10.0)
    assert hindsight.corrected(0, 100.0)[0] == pytest.approx(100.0)
