"""Waits are estimated by a simulation of the scheduler's own policy."""

from random import Random

import pytest

from beacon_router.scheduling import (
    BackendSpec,
    Fairness,
    GroupSpec,
    Health,
    Holdup,
    LimitName,
    ModelSpec,
    Outcome,
    Policy,
    RegionSpec,
    Request,
    RequestId,
    Scheduler,
    Topology,
)
from beacon_router.scheduling.forecast.calibration import RunningQuantile

MODELS = (
    ModelSpec("a", expected_load_s=2.0, expected_run_s=10.0),
    ModelSpec("b", expected_load_s=2.0, expected_run_s=10.0),
    ModelSpec("alone", expected_load_s=2.0, expected_run_s=10.0, exclusive=True),
)
NAMES = frozenset(model.name for model in MODELS)
_GPUS = tuple(BackendSpec(f"us-{number}", "US", NAMES) for number in range(2))
_GROUPED = tuple(BackendSpec(f"us-{number}", "US", NAMES, group="g") for number in range(2))
_LIMITED = (ModelSpec("a", expected_load_s=2.0, expected_run_s=10.0, limit=1), *MODELS[1:])


def _scheduler(
    gpus: int = 1, *, regions: tuple[str, ...] = ("US",), fairness: Fairness = Fairness.FAIR
) -> Scheduler:
    backends = tuple(
        BackendSpec(f"{region}-{number}", region, NAMES) for region in regions for number in range(gpus)
    )
    topology = Topology(tuple(RegionSpec(region) for region in regions), backends, MODELS)
    return Scheduler(topology, Policy(fairness=fairness))


def _submit(
    scheduler: Scheduler,
    name: str,
    model: str = "a",
    rank: int = 4,
    *,
    front: bool = False,
    size: float | None = None,
    user: str = "",
) -> None:
    scheduler.submit(0.0, Request(RequestId(name), model, "US", rank, front=front, size=size, user=user))
    scheduler.next(0.0)


def _p50(scheduler: Scheduler, name: str, now: float = 0.0) -> float:
    eta = scheduler.eta(now, RequestId(name))
    assert eta is not None
    return eta.p50_s


def _p50_of_new(scheduler: Scheduler, now: float) -> float:
    eta = scheduler.eta_of_new(now, "a", "US", 4)
    assert eta is not None
    return eta.p50_s


def test_the_queue_is_simulated_run_by_run() -> None:
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


def test_waits_behind_large_requests_are_longer_once_sizes_are_known() -> None:
    scheduler = _scheduler()
    for number in range(40):
        size = (1.0, 3.0)[number % 2]
        _run(scheduler, number, size, 4.0 * size)
    scheduler.model_loaded(0.0, "US-0", "a")
    sizes = {"running": 1.0, "small": 1.0, "large": 3.0, "unknown": None, "last": 1.0}
    for name, stated in sizes.items():
        _submit(scheduler, name, size=stated)

    assert _p50(scheduler, "small") == pytest.approx(4.0, rel=0.1)
    assert _p50(scheduler, "large") == pytest.approx(8.0, rel=0.1)
    assert _p50(scheduler, "unknown") == pytest.approx(20.0, rel=0.1)
    assert _p50(scheduler, "last") == pytest.approx(28.0, rel=0.1)


def test_a_late_run_of_known_size_is_expected_to_end_sooner() -> None:
    sized, unsized = _scheduler(), _scheduler()
    chance = Random(1)
    for number in range(40):
        size = chance.uniform(5.0, 15.0)
        run_s = size * chance.uniform(0.9, 1.1)
        _run(sized, number, size, run_s)
        _run(unsized, number, None, run_s)
    for name in ("late", "waiting"):
        _submit(sized, name, size=10.0)
        _submit(unsized, name)

    assert _p50(sized, "waiting", now=30.0) < 0.5 * _p50(unsized, "waiting", now=30.0)


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


def test_paid_requests_and_higher_tiers_have_shorter_estimates() -> None:
    scheduler = _scheduler()
    _submit(scheduler, "running")
    for number in range(4):
        _submit(scheduler, f"free {number}", "b")
    _submit(scheduler, "admin", "b", rank=0)
    _submit(scheduler, "paid", "b", front=True)

    assert _p50(scheduler, "paid") < _p50(scheduler, "admin") < _p50(scheduler, "free 0")


def test_an_exclusive_model_runs_one_at_a_time_in_the_forecast() -> None:
    scheduler = _scheduler(gpus=4)
    for number in range(3):
        _submit(scheduler, f"r{number}", "alone")

    assert _p50(scheduler, "r1") == pytest.approx(12.0)
    assert _p50(scheduler, "r2") == pytest.approx(22.0, abs=2.5)


def test_a_retry_waits_for_the_region_that_is_free_first() -> None:
    scheduler = _scheduler(regions=("US", "EU", "ASIA"))
    for region, run in (("EU", "long"), ("ASIA", "short")):
        scheduler.submit(0.0, Request(RequestId(run), "a", region, 0))
    scheduler.next(0.0)
    scheduler.retry(8.0, Request(RequestId("again"), "a", "US", 0), failed_in="US")
    scheduler.model_loaded(8.0, "EU-0", "a")

    assert [start.id for start in scheduler.next(8.0)] == []
    assert _p50(scheduler, "again", now=8.0) == pytest.approx(2.0)  # then it may return to the region
    scheduler.set_health("US-0", Health.OPEN)
    assert _p50(scheduler, "again", now=8.0) == pytest.approx(4.0)


def test_waits_in_a_long_queue_grow_with_the_position() -> None:
    scheduler = _scheduler(gpus=2)
    for number in range(2_000):
        _submit(scheduler, f"r{number}", "ab"[number % 2])

    waits = [_p50(scheduler, f"r{number}") for number in (10, 100, 500, 1_000, 1_999)]

    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(10 * 2_000 / 2, rel=0.35)


@pytest.mark.parametrize(
    ("fairness", "behind_three_s"), [(Fairness.FAIR, 11.0), (Fairness.FIFO, 41.0)], ids=str
)
def test_a_new_request_is_estimated_by_its_place_in_the_order(
    fairness: Fairness, behind_three_s: float
) -> None:
    scheduler = _scheduler(fairness=fairness)
    assert _p50_of_new(scheduler, 0.0) == 0.0
    _submit(scheduler, "running")
    assert _p50_of_new(scheduler, 1.0) == pytest.approx(11.0)
    for number in range(3):
        _submit(scheduler, f"r{number}")
    assert _p50_of_new(scheduler, 1.0) == pytest.approx(behind_three_s)


def test_a_running_quantile_comes_near_the_true_one() -> None:
    chance = Random(1)
    p90 = RunningQuantile(0.9, guess=5.0)
    for _ in range(3_000):
        p90.add(chance.random())

    assert p90.value == pytest.approx(0.9, abs=0.06)


def test_there_is_no_estimate_while_nothing_can_run() -> None:
    scheduler = _scheduler()
    scheduler.set_health("US-0", Health.OPEN)
    _submit(scheduler, "r0")

    assert scheduler.eta(0.0, RequestId("r0")) is None
    assert scheduler.eta_of_new(0.0, "a", "US", 4) is None
    why = scheduler.why(0.0, RequestId("r0"))
    assert why is not None
    assert why.holdup is Holdup.BREAKER_OPEN
    assert scheduler.position(0.0, RequestId("r0")) == 1


def test_positions_follow_the_fair_order_of_users() -> None:
    scheduler = _scheduler()
    _submit(scheduler, "running")
    for number in range(300):
        _submit(scheduler, f"bulk {number}", user="bulk")
    for number in range(3):
        _submit(scheduler, f"small {number}", user="small")

    positions = [scheduler.position(0.0, RequestId(f"small {number}")) or 0 for number in range(3)]
    assert positions == sorted(positions)
    assert 0 < positions[0] < positions[-1] <= 8
    assert scheduler.position(0.0, RequestId("bulk 299")) == 303


def test_the_position_of_an_exclusive_model_counts_only_itself() -> None:
    scheduler = _scheduler(gpus=2)
    _submit(scheduler, "running", "alone")
    for number in range(5):
        _submit(scheduler, f"other {number}", "a", user="other")
    for number in range(3):
        _submit(scheduler, f"r{number}", "alone")
    assert [scheduler.position(0.0, RequestId(f"r{number}")) for number in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("topology", "cause"),
    [
        (Topology((RegionSpec("US", concurrency=1),), _GPUS, MODELS), "concurrency"),
        (Topology((RegionSpec("US"),), _GROUPED, MODELS, groups=(GroupSpec("g", 1),)), "group:g"),
        (Topology((RegionSpec("US"),), _GPUS, _LIMITED), "model:a"),
    ],
)
def test_the_reason_is_given_with_the_number_ahead(topology: Topology, cause: str) -> None:
    scheduler = Scheduler(topology)
    for number in range(4):
        _submit(scheduler, f"r{number}")
    reasons = [str(scheduler.why(0.0, RequestId(f"r{number}"))) for number in (1, 2, 3)]
    assert [reason.split(",")[0] for reason in reasons] == ["next", "behind 1 others", "behind 2 others"]
    assert all(cause in reason for reason in reasons)


def test_only_the_next_request_is_reported_as_next() -> None:
    scheduler = _scheduler(gpus=2)
    for number in range(4):
        _submit(scheduler, f"r{number}", "alone")

    reasons = [str(scheduler.why(0.0, RequestId(f"r{number}"))) for number in (1, 2, 3)]
    assert [reason.startswith("next") for reason in reasons] == [True, False, False]
    assert reasons[2].startswith("behind 2")


def test_an_arrival_after_a_long_simulation_is_estimated_by_its_own_place() -> None:
    """The simulation is kept for some milliseconds; the new request of the highest tier is not part of it."""
    scheduler = _scheduler()
    for number in range(300):
        _submit(scheduler, f"bulk {number}", user="bulk")
    assert scheduler.eta(0.0, RequestId("bulk 299")) is not None
    scheduler.submit(0.01, Request(RequestId("urgent"), "a", "US", 0, user="urgent"))

    eta = scheduler.eta(0.01, RequestId("urgent"))
    last = scheduler.eta(0.01, RequestId("bulk 299"))

    assert eta is not None
    assert last is not None
    assert eta.p50_s < last.p50_s / 50


def test_an_exclusive_model_waits_for_the_load_and_run_of_the_first() -> None:
    scheduler = _scheduler(gpus=4)
    _submit(scheduler, "r0", "alone", user="anna")

    eta = scheduler.eta_of_new(0.0, "alone", "US", 4)

    assert eta is not None
    assert eta.p50_s == pytest.approx(12.0)


def test_a_new_user_of_a_tier_does_not_wait_for_all_requests_of_another() -> None:
    scheduler = _scheduler()
    for number in range(20):
        _submit(scheduler, f"bulk {number}", user="bulk")

    assert _p50_of_new(scheduler, 0.0) <= 22.0


def test_the_next_request_of_a_user_waits_for_the_own_ones() -> None:
    scheduler = _scheduler()
    for number in range(9):
        _submit(scheduler, f"bulk {number}", user="bulk")
    _submit(scheduler, "alone", "alone", user="bulk")

    (region,) = scheduler.snapshot(0.0).regions
    forecasts = region.by_user[4]["bulk"]

    assert {model: one.waiting for model, one in forecasts.items()} == {"a": 8, "b": 0, "alone": 1}
    assert forecasts["a"].next_s == pytest.approx(92.0, rel=0.15)


def test_tokens_that_nothing_requires_are_expected_to_be_free() -> None:
    """A router requests tokens of shared limits for waiting requests only."""
    scheduler = Scheduler(Topology((RegionSpec("US"),), _GROUPED, MODELS, (GroupSpec("g", 2),)))
    scheduler.set_capacity(LimitName("group:g"), 0)
    assert _p50_of_new(scheduler, 0.0) == 0.0

    _submit(scheduler, "r0")

    assert scheduler.eta_of_new(0.0, "a", "US", 4) is None


def test_a_run_waits_for_the_load_of_an_earlier_one_on_its_backend() -> None:
    backend = BackendSpec("two-slots", "US", frozenset({"a"}), slots=2)
    scheduler = Scheduler(Topology((RegionSpec("US"),), (backend,), MODELS))
    for name in ("first", "second", "third"):
        _submit(scheduler, name)
    load_s, run_s = MODELS[0].expected_load_s, MODELS[0].expected_run_s

    eta = scheduler.eta(0.0, RequestId("third"))

    assert eta is not None
    assert eta.p50_s == pytest.approx(load_s + run_s)


def test_executions_that_are_not_sent_yet_are_ahead_of_lower_tiers() -> None:
    waits = []
    for following in (0, 5):
        scheduler = _scheduler()
        for number in range(4):
            request = Request(
                RequestId(f"m{number}"), "a", "US", 0, pinned=True, user="matrix", following=following
            )
            scheduler.submit(0.0, request)
        _submit(scheduler, "lowest", user="other")
        eta = scheduler.eta(0.0, RequestId("lowest"))
        assert eta is not None
        waits.append(eta.p50_s)

    assert waits[1] > 2 * waits[0] > 0


def test_of_a_burst_only_the_first_request_is_expected_again() -> None:
    scheduler = _scheduler()
    for number in range(20):
        _submit(scheduler, f"bulk {number}", user="bulk")
    _submit(scheduler, "single", user="other")

    (domain,) = (each for each in scheduler._state.domains if "a" in each.models)

    assert [request.user for _, request, _ in domain.arrivals] == ["bulk", "other"]


def _two_slots() -> Scheduler:
    """One of them runs model a, which is loaded."""
    backend = BackendSpec("two-slots", "US", frozenset({"a", "b"}), slots=2)
    scheduler = Scheduler(Topology((RegionSpec("US"),), (backend,), MODELS))
    _submit(scheduler, "first")
    scheduler.model_loaded(0.0, "two-slots", "a")
    return scheduler


def test_a_load_begins_when_the_runs_of_the_model_in_its_place_have_ended() -> None:
    scheduler = _two_slots()
    _submit(scheduler, "other model", "b")
    _submit(scheduler, "behind", "b")

    assert _p50(scheduler, "behind") == pytest.approx(10.0)  # the slot of the first
    scheduler.finished(30.0, RequestId("first"), Outcome.COMPLETED)
    scheduler.next(30.0)
    for number in range(2):
        _submit(scheduler, f"last {number}", "b")
    assert _p50(scheduler, "last 0", now=30.0) == pytest.approx(2.0 + 10.0), "the load begins now"


def test_the_wait_for_room_is_no_part_of_the_load_time() -> None:
    scheduler = _two_slots()
    _submit(scheduler, "other model", "b")
    scheduler.finished(30.0, RequestId("first"), Outcome.COMPLETED, run_s=10.0)
    scheduler.finished(43.0, RequestId("other model"), Outcome.COMPLETED, load_s=33.0, run_s=10.0)

    (backend,) = scheduler._state.backends.values()
    assert backend.loads_s.of("b") == pytest.approx((2.0 + 3.0) / 2)


def test_no_run_time_is_learned_after_a_load_of_unknown_length() -> None:
    """The second waits for the load of the first, whose end is known when the first has ended."""
    backend_spec = BackendSpec("two-slots", "US", frozenset({"a", "b"}), slots=2)
    scheduler = Scheduler(Topology((RegionSpec("US"),), (backend_spec,), MODELS))
    (backend,) = scheduler._state.backends.values()
    expected_s = backend.runs_s.of("a")
    for name in ("first", "second"):
        _submit(scheduler, name)

    scheduler.finished(12.0, RequestId("first"), Outcome.COMPLETED)
    scheduler.model_loaded(12.0, "two-slots", "a")
    scheduler.finished(12.5, RequestId("second"), Outcome.COMPLETED)

    assert backend.runs_s.of("a") == expected_s


def test_a_backend_whose_loads_do_not_wait_for_room_is_learned() -> None:
    """One address in front of several GPUs: a load takes less than the other run was in its way."""
    backend_spec = BackendSpec("two-slots", "US", frozenset({"a", "b"}), slots=2)
    scheduler = Scheduler(Topology((RegionSpec("US"),), (backend_spec,), MODELS))
    for number in range(20):
        now, slow, other = 100.0 * number, RequestId(f"slow {number}"), RequestId(f"other {number}")
        for name, model in ((slow, "a"), (other, "b")):
            scheduler.submit(now, Request(name, model, "US", 4))
            scheduler.next(now)
        scheduler.finished(now + 30.0, slow, Outcome.COMPLETED)
        scheduler.finished(now + 40.0, other, Outcome.COMPLETED, load_s=2.0, run_s=38.0)

    (backend,) = scheduler._state.backends.values()
    assert backend.room_waits.value < 0.5
    assert backend.loads_s.of("b") == pytest.approx(2.0, rel=0.3)


def test_a_late_run_is_not_expected_to_have_ended() -> None:
    """A long simulation is kept while little changes, but no longer than waits need it."""
    scheduler = _scheduler()
    for number in range(600):
        _submit(scheduler, f"r{number}")
    _submit(scheduler, "admin", rank=0)
    assert _p50(scheduler, "admin") == pytest.approx(12.0)

    assert _p50(scheduler, "admin", now=20.0) == pytest.approx(3.0)


def test_requests_since_the_last_simulation_are_ahead_of_the_next_one() -> None:
    scheduler = _scheduler()
    for number in range(60):
        _submit(scheduler, f"bulk {number}", user="bulk")
    before = scheduler.snapshot(0.0).regions[0].by_user[4]["bulk"]["a"].next_s
    for number in range(60, 80):
        _submit(scheduler, f"bulk {number}", user="bulk")

    after = scheduler.snapshot(0.01).regions[0].by_user[4]["bulk"]["a"].next_s

    assert after - before == pytest.approx(20 * 10.0, rel=0.2)


def test_a_load_is_expected_to_continue_for_as_long_as_it_has_lasted() -> None:
    """Eight requests of the highest tier in 8 s: eight more are expected, and then none."""
    scheduler = _scheduler(gpus=2)
    for second in range(8):
        scheduler.submit(float(second), Request(RequestId(f"top {second}"), "a", "US", 0, user=f"u{second}"))
        scheduler.next(float(second))
    scheduler.submit(8.0, Request(RequestId("lowest"), "a", "US", 4, user="other"))

    ahead_s, expected_s = 2.0 + 8 * 10.0 / 2 - 8.0, 8 * 10.0 / 2
    assert ahead_s + 0.7 * expected_s <= _p50(scheduler, "lowest", now=8.0) <= ahead_s + 1.2 * expected_s


def test_requests_beyond_the_free_slots_wait_for_the_load_and_a_run() -> None:
    scheduler = _two_slots()
    assert scheduler.snapshot(0.0).regions[0].forecasts["a"].free == 1
    scheduler.finished(10.0, RequestId("first"), Outcome.COMPLETED)

    forecasts = scheduler.snapshot(10.0).regions[0].forecasts
    assert (forecasts["a"].free, forecasts["a"].then_s) == (2, 10.0)
    assert (forecasts["b"].free, forecasts["b"].then_s) == (2, 2.0 + 10.0), "b is not loaded"


def test_no_request_can_start_at_once_where_all_slots_or_tokens_are_used() -> None:
    scheduler = _scheduler(gpus=2)
    assert scheduler.snapshot(0.0).regions[0].forecasts["alone"].free == 1
    _submit(scheduler, "first", "alone")

    forecasts = scheduler.snapshot(0.0).regions[0].forecasts
    assert (forecasts["alone"].free, forecasts["alone"].then_s) == (0, 0.0)
    assert forecasts["a"].free == 1
    _submit(scheduler, "second")
    assert scheduler.snapshot(0.0).regions[0].forecasts["a"].free == 0


def test_the_pace_of_a_user_does_not_include_the_wait_before_the_first_start() -> None:
    scheduler = _scheduler()
    for number in range(6):
        _submit(scheduler, f"top {number}", rank=0, user="top")
    for number in range(2):
        _submit(scheduler, f"bulk {number}", user="bulk")

    forecast = scheduler.snapshot(0.0).regions[0].by_user[4]["bulk"]["a"]
    assert forecast.next_s == pytest.approx(2.0 + 8 * 10.0)
    assert forecast.pace_s == pytest.approx(10.0, rel=0.05)


def test_a_half_open_backend_is_expected_to_run_one_request_first() -> None:
    scheduler = Scheduler(
        Topology((RegionSpec("US"),), (BackendSpec("us", "US", NAMES, slots=4),), MODELS), Policy()
    )
    scheduler.set_health("us", Health.HALF_OPEN)
    region = scheduler.snapshot(0.0).regions[0]
    assert (region.forecasts["a"].waits_s[4], region.forecasts["a"].free) == (0.0, 1)

    for number in range(2):
        _submit(scheduler, str(number))
    assert _p50(scheduler, "1") == pytest.approx(12.0)
    assert _p50_of_new(scheduler, now=0.0) == pytest.approx(12.0)


def _one_token_held() -> Scheduler:
    """Two GPUs of a group; the router holds the one token that its only run uses, of two."""
    scheduler = Scheduler(Topology((RegionSpec("US"),), _GROUPED, MODELS, (GroupSpec("g", 2),)))
    _submit(scheduler, "first", "alone")
    scheduler.set_capacity(LimitName("group:g"), 1)
    return scheduler


def test_tokens_that_no_work_wants_are_expected_to_be_granted() -> None:
    scheduler = _one_token_held()
    _submit(scheduler, "waits for its model", "alone")

    assert _p50_of_new(scheduler, now=0.0) == 0.0


def test_tokens_that_work_waits_for_are_not_expected() -> None:
    scheduler = _one_token_held()
    _submit(scheduler, "waits for a token")

    assert _p50(scheduler, "waits for a token") == pytest.approx(12.0)
