"""GPU time is shared between the users of a tier; inside a user the order is arrival."""

from collections import Counter

import pytest

from beacon_router.scheduling import (
    BackendSpec,
    Fairness,
    ModelSpec,
    Outcome,
    Policy,
    RegionSpec,
    Request,
    RequestId,
    Scheduler,
    TierRule,
    Topology,
)

TOPOLOGY = Topology((RegionSpec("US"),), (BackendSpec("gpu", "US", frozenset("a")),), (ModelSpec("a"),))


def _served(scheduler: Scheduler, runs: int, run_s: dict[str, float] | None = None) -> list[str]:
    """The users of the next runs, in order."""
    now, users = 0.0, []
    for _ in range(runs):
        (start,) = scheduler.next(now)
        user = start.id.split()[0]
        users.append(user)
        seconds = (run_s or {}).get(user, 5.0)
        now += seconds
        scheduler.finished(now, start.id, Outcome.COMPLETED, run_s=seconds)
    return users


def _submit(scheduler: Scheduler, user: str, count: int, weight: float = 1.0) -> None:
    for number in range(count):
        request = Request(RequestId(f"{user} {number}"), "a", "US", 4, user=user, weight=weight)
        scheduler.submit(0.0, request)


def test_a_flood_of_one_user_delays_another_by_one_run() -> None:
    scheduler = Scheduler(TOPOLOGY)
    _submit(scheduler, "bulk", 500)
    _served(scheduler, 3)
    _submit(scheduler, "small", 2)

    assert _served(scheduler, 4) == ["small", "bulk", "small", "bulk"]


def test_weights_divide_the_gpu_time() -> None:
    scheduler = Scheduler(TOPOLOGY)
    _submit(scheduler, "double", 100, weight=2.0)
    _submit(scheduler, "single", 100)

    assert Counter(_served(scheduler, 60))["double"] == pytest.approx(40, abs=1)


def test_charges_are_corrected_by_measured_seconds() -> None:
    scheduler = Scheduler(TOPOLOGY)
    _submit(scheduler, "long", 100)
    _submit(scheduler, "short", 100)

    served = Counter(_served(scheduler, 60, {"long": 9.0, "short": 1.0}))

    assert served["short"] == pytest.approx(54, abs=3)


def test_affinity_gives_a_user_no_more_than_the_bound() -> None:
    """Both models are requested without end, each by one user; loaded models start before others."""
    models = (ModelSpec("a", expected_run_s=5.0), ModelSpec("b", expected_run_s=5.0))
    topology = Topology((RegionSpec("US"),), (BackendSpec("gpu", "US", frozenset("ab")),), models)
    scheduler = Scheduler(topology, Policy(batch_limit=10**6, tiers=(TierRule(60.0, 1),)))
    for user in "ab":
        for number in range(200):
            scheduler.submit(0.0, Request(RequestId(f"{user} {number}"), user, "US", 0, user=user))

    now, used_s = 0.0, Counter[str]()
    for _ in range(60):
        (start,) = scheduler.next(now)
        used_s[start.id[0]] += 5
        scheduler.finished(now, start.id, Outcome.COMPLETED, run_s=5.0)

    assert 0 < used_s["a"] - used_s["b"] <= 60 + 2 * 5


def test_fifo_keeps_the_order_of_arrival() -> None:
    scheduler = Scheduler(TOPOLOGY, Policy(fairness=Fairness.FIFO))
    _submit(scheduler, "bulk", 5)
    _submit(scheduler, "small", 1)

    assert _served(scheduler, 6) == ["bulk"] * 5 + ["small"]


def test_a_weight_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="weight"):
        Scheduler(TOPOLOGY).submit(0.0, Request(RequestId("r"), "a", "US", 4, weight=0.0))


def test_users_are_equal_again_once_the_tier_was_idle() -> None:
    scheduler = Scheduler(TOPOLOGY)
    _submit(scheduler, "frequent", 3)
    _submit(scheduler, "rare", 1)
    _served(scheduler, 4)
    _submit(scheduler, "frequent", 1)
    _submit(scheduler, "rare", 1)

    assert _served(scheduler, 2) == ["frequent", "rare"]
