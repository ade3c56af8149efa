"""Another topology while requests wait and run: none is lost, no limit is exceeded, the order is kept."""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import pytest

from beacon_router.scheduling import (
    BackendSpec,
    Fairness,
    GroupSpec,
    ModelSpec,
    Outcome,
    Policy,
    RegionSpec,
    Request,
    RequestId,
    Scheduler,
    Start,
    TierRule,
    Topology,
)
from beacon_router.scheduling.state.topology import group_limit
from tests.unit.router_scheduling.harness import SchedulerHarness, many_gpus, mixed_topology, small_policy
from tests.unit.router_scheduling.random_scenarios import RandomScenario

BASE = Topology(
    regions=(RegionSpec("US"), RegionSpec("EU")),
    backends=(BackendSpec("us", "US", frozenset("ab")), BackendSpec("eu", "EU", frozenset("a"))),
    models=(ModelSpec("a"), ModelSpec("b")),
)


class ChangingScenario(RandomScenario):
    """In which backends come, go and change, also to no slots, and caps change, also to zero."""

    def __init__(self, harness: SchedulerHarness, seed: int) -> None:
        super().__init__(harness, seed)
        self._base = harness.topology
        self._acts[self._change] = 2

    def run(self, steps: int) -> None:
        for _ in range(steps):
            act: Callable[[], None] = self._chance.choices(list(self._acts), list(self._acts.values()))[0]
            act()
            self._harness.next()
        self._harness.adopt(self._base)
        self._harness.drain()

    def _change(self) -> None:
        chance = self._chance
        backends = [spec for spec in self._base.backends if chance.random() < 0.8] or self._base.backends[:1]
        changed = tuple(
            replace(spec, slots=chance.choice([0, 1, 2, spec.slots]), drain=chance.random() < 0.2)
            for spec in backends
        )
        topology = replace(
            self._base,
            backends=changed,
            groups=tuple(GroupSpec(group.name, chance.randint(0, 4)) for group in self._base.groups),
            models=tuple(
                replace(model, limit=0) if chance.random() < 0.1 else model for model in self._base.models
            ),
        )
        self._harness.adopt(topology)
        self._limits = sorted(topology.limits)


class MovingScenario(ChangingScenario):
    """In which backends also change their region, models, group and memory, and limits come and go."""

    def _change(self) -> None:
        chance, base = self._chance, self._base
        regions, models = [spec.name for spec in base.regions], [spec.name for spec in base.models]
        groups = [None, *(group.name for group in base.groups)]
        changes: list[Callable[[BackendSpec], BackendSpec]] = [
            lambda spec: replace(spec, region=chance.choice(regions)),
            lambda spec: replace(
                spec, models=frozenset(chance.sample(models, chance.randint(1, len(models))))
            ),
            lambda spec: replace(spec, group=chance.choice(groups)),
            lambda spec: replace(spec, loaded_models=chance.choice([1, 2, 3])),
            lambda spec: replace(spec, shared=not spec.shared),
            lambda spec: replace(spec, slots=chance.choice([0, 1, 2]), drain=chance.random() < 0.2),
        ]
        chosen = chance.sample(base.backends, chance.randint(1, len(base.backends)))
        backends = [
            reduce(lambda spec, change: change(spec), chance.sample(changes, 2), one) for one in chosen
        ]
        limits = [0, 1, None]
        topology = replace(
            base,
            backends=tuple(backends),
            regions=tuple(replace(spec, concurrency=chance.choice([None, 1, 2])) for spec in base.regions),
            groups=tuple(GroupSpec(group.name, chance.randint(0, 4)) for group in base.groups),
            models=tuple(replace(spec, limit=chance.choice([*limits, spec.limit])) for spec in base.models),
        )
        self._harness.adopt(topology)
        self._limits = sorted(topology.limits)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("topology", [mixed_topology(), many_gpus()], ids=["mixed", "many"])
def test_whatever_changes_no_request_is_lost_and_no_limit_exceeded(topology: Topology, seed: int) -> None:
    policy = (small_policy(), small_policy(0.0))[seed % 2]
    MovingScenario(SchedulerHarness(topology, policy, compare=False), seed).run(200)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("topology", [mixed_topology(), many_gpus()], ids=["mixed", "many"])
def test_random_changes_match_the_reference(topology: Topology, seed: int) -> None:
    policy = (small_policy(), small_policy(0.0))[seed % 2]
    ChangingScenario(SchedulerHarness(topology, policy, compare=True), seed).run(240)


def request(name: str, model: str = "a", region: str = "US", **more: Any) -> Request:
    return Request(RequestId(name), model, region, more.pop("rank", 0), **more)


def started(scheduler: Scheduler, now: float = 0.0) -> list[tuple[str, str]]:
    return [(each.id, each.backend) for each in scheduler.next(now) if isinstance(each, Start)]


def changed(**backends: BackendSpec | None) -> Topology:
    """Of the base topology; None: the backend is gone."""
    specs = {spec.name: spec for spec in BASE.backends} | backends
    left = tuple(spec for spec in specs.values() if spec is not None)
    regions = {spec.region for spec in left}
    models = frozenset[str]().union(*(spec.models for spec in left))
    return Topology(
        regions=tuple(region for region in BASE.regions if region.name in regions),
        backends=left,
        models=tuple(model for model in BASE.models if model.name in models),
    )


def test_a_drained_backend_ends_its_runs_and_starts_none() -> None:
    scheduler = Scheduler(BASE)
    for name in ("r1", "r2"):
        scheduler.submit(0.0, request(name, "b"))
    assert started(scheduler) == [("r1", "us")]
    scheduler.adopt(changed(us=replace(BASE.backends[0], drain=True)), Policy())
    scheduler.finished(1.0, RequestId("r1"), Outcome.COMPLETED)
    assert started(scheduler, 1.0) == []
    assert str(scheduler.why(1.0, RequestId("r2"))) == "us is drained or has 0 slots in US"
    scheduler.adopt(BASE, Policy())
    assert started(scheduler, 2.0) == [("r2", "us")]


def test_a_removed_backend_is_there_until_its_last_run_ends() -> None:
    scheduler = Scheduler(BASE)
    scheduler.submit(0.0, request("r1"))
    assert started(scheduler) == [("r1", "us")]
    assert scheduler.adopt(changed(us=None), Policy()) == []
    backends = [one for region in scheduler.snapshot(1.0).regions for one in region.backends]
    assert {(one.name, one.busy) for one in backends} == {("us", 1), ("eu", 0)}
    scheduler.finished(1.0, RequestId("r1"), Outcome.COMPLETED)
    assert [region.name for region in scheduler.snapshot(1.0).regions] == ["EU"]


def test_requests_that_no_backend_serves_are_returned() -> None:
    scheduler = Scheduler(BASE)
    scheduler.submit(0.0, request("running"))
    started(scheduler)
    scheduler.submit(0.0, request("model", "b"))
    scheduler.submit(0.0, request("region"))
    assert set(scheduler.adopt(changed(us=None), Policy())) == {"model", "region"}
    assert scheduler.waiting() == 0


def test_a_movable_request_goes_where_its_model_is_left() -> None:
    topology = replace(BASE, backends=(*BASE.backends, BackendSpec("us-2", "US", frozenset("b"))))
    scheduler = Scheduler(topology)
    for name in ("first", "moves"):
        scheduler.submit(0.0, request(name))
    scheduler.submit(0.0, request("pinned", pinned=True))
    assert started(scheduler) == [("first", "us")]
    without = replace(topology, backends=topology.backends[1:])
    assert scheduler.adopt(without, Policy()) == ["pinned"]
    assert started(scheduler, 1.0) == [("moves", "eu")]


def test_a_backend_that_moves_takes_its_runs_along() -> None:
    scheduler = Scheduler(BASE)
    scheduler.submit(0.0, request("running"))
    started(scheduler)
    scheduler.submit(0.0, request("pinned", pinned=True))
    scheduler.submit(0.0, request("moves", region="EU"))
    scheduler.submit(0.0, request("next", region="EU"))
    assert started(scheduler, 0.5) == [("moves", "eu")]
    moved = changed(us=replace(BASE.backends[0], region="EU", models=frozenset("ab"), loaded_models=2))
    assert scheduler.adopt(moved, Policy()) == ["pinned"]
    (region,) = (one for one in scheduler.snapshot(1.0).regions if one.name == "EU")
    assert {(one.name, one.busy) for one in region.backends} == {("us", 1), ("eu", 1)}
    scheduler.finished(1.0, RequestId("running"), Outcome.COMPLETED)
    assert started(scheduler, 1.0) == [("next", "us")]
    scheduler.finished(2.0, RequestId("moves"), Outcome.COMPLETED)
    scheduler.finished(2.0, RequestId("next"), Outcome.COMPLETED)
    assert started(scheduler, 2.0) == []
    assert [one.name for one in scheduler.snapshot(2.0).regions] == ["EU"]


def test_a_backend_that_changes_its_group_counts_under_the_new_cap() -> None:
    def grouped(group: str) -> Topology:
        specs = (
            BackendSpec("one", "US", frozenset("a"), slots=2, group=group),
            BackendSpec("two", "US", frozenset("b"), slots=2, group="small"),
        )
        groups = (GroupSpec("large", 4), GroupSpec("small", 2))
        return Topology((RegionSpec("US"),), specs, (ModelSpec("a"), ModelSpec("b")), groups)

    scheduler = Scheduler(grouped("large"))
    for name in ("r1", "r2"):
        scheduler.submit(0.0, request(name))
    assert len(started(scheduler)) == 2
    scheduler.adopt(grouped("small"), Policy())
    scheduler.submit(1.0, request("r3", "b"))
    assert started(scheduler, 1.0) == []
    scheduler.finished(2.0, RequestId("r1"), Outcome.COMPLETED)
    assert started(scheduler, 2.0) == [("r3", "two")]
    scheduler.adopt(grouped("large"), Policy())
    scheduler.submit(3.0, request("r4", "b"))
    assert started(scheduler, 3.0) == [("r4", "two")]
    for name in ("r2", "r3", "r4"):
        scheduler.finished(4.0, RequestId(name), Outcome.COMPLETED)


def test_a_smaller_cap_lets_runs_end_before_others_start() -> None:
    spec = BackendSpec("us", "US", frozenset("a"), slots=3, group="g")

    def capped(cap: int) -> Topology:
        return Topology((RegionSpec("US"),), (spec,), (ModelSpec("a"),), (GroupSpec("g", cap),))

    scheduler = Scheduler(capped(3))
    for name in ("r1", "r2", "r3", "r4"):
        scheduler.submit(0.0, request(name))
    assert len(started(scheduler)) == 3
    scheduler.adopt(capped(1), Policy())
    for count, name in enumerate(("r1", "r2"), start=1):
        scheduler.finished(float(count), RequestId(name), Outcome.COMPLETED)
        assert started(scheduler, float(count)) == []
    assert scheduler.demand()[group_limit("g")] == 1
    scheduler.finished(3.0, RequestId("r3"), Outcome.COMPLETED)
    assert started(scheduler, 3.0) == [("r4", "us")]


def test_tiers_that_move_take_their_requests_along() -> None:
    scheduler = Scheduler(BASE, Policy(tiers=(TierRule(30.0, 2), TierRule(60.0, 1))))
    scheduler.submit(0.0, request("busy", "b"))
    started(scheduler)
    scheduler.submit(0.0, request("second", "b", rank=1))
    scheduler.submit(0.0, request("first", "b", rank=0))
    scheduler.adopt(BASE, Policy(tiers=(TierRule(30.0, 2), TierRule(60.0, 1))), [1, 0])
    scheduler.finished(1.0, RequestId("busy"), Outcome.COMPLETED)
    assert started(scheduler, 1.0) == [("second", "us")]


def test_the_requests_of_a_removed_tier_keep_their_order() -> None:
    scheduler = Scheduler(BASE, Policy(tiers=(TierRule(30.0, 2), TierRule(60.0, 1))))
    scheduler.submit(0.0, request("busy", "b"))
    started(scheduler)
    for number in range(6):
        scheduler.submit(0.0, request(f"r{number}", "b", rank=number % 2, user="u"))
    scheduler.adopt(BASE, Policy(tiers=(TierRule(30.0, 2),)), [0, 0])
    order = []
    ended = "busy"
    while scheduler.running():
        scheduler.finished(1.0, RequestId(ended), Outcome.COMPLETED)
        for name, _ in started(scheduler, 1.0):
            order.append(name)
            ended = name
    assert order == [f"r{number}" for number in range(6)]


def test_users_keep_the_gpu_time_that_they_have_had() -> None:
    scheduler = Scheduler(BASE)
    scheduler.submit(0.0, request("a1", "b", user="anna"))
    started(scheduler)
    scheduler.submit(0.0, request("a2", "b", user="anna"))
    scheduler.submit(0.0, request("b1", "b", user="bert"))
    scheduler.adopt(changed(us=replace(BASE.backends[0], slots=2)), Policy())
    assert started(scheduler, 1.0) == [("b1", "us")]


def test_another_fairness_keeps_running_requests() -> None:
    scheduler = Scheduler(BASE)
    scheduler.submit(0.0, request("a1", "b", user="anna"))
    started(scheduler)
    scheduler.submit(0.0, request("a2", "b", user="anna"))
    for fairness in (Fairness.FIFO, Fairness.FAIR):
        scheduler.adopt(BASE, Policy(fairness=fairness))
    scheduler.finished(1.0, RequestId("a1"), Outcome.COMPLETED)
    assert started(scheduler, 1.0) == [("a2", "us")]


def test_a_run_in_progress_is_continued_on_a_drained_backend() -> None:
    scheduler = Scheduler(changed(us=replace(BASE.backends[0], drain=True)))
    scheduler.submit(0.0, request("waits", "b"))
    scheduler.submit(0.0, request("continued", "b", backend="us"))
    assert started(scheduler) == [("continued", "us")]


def test_a_paused_model_waits_with_its_reason() -> None:
    scheduler = Scheduler(replace(BASE, models=(ModelSpec("a"), ModelSpec("b", limit=0))))
    scheduler.submit(0.0, request("r1", "b"))
    assert started(scheduler) == []
    assert str(scheduler.why(0.0, RequestId("r1"))) == "the model is paused in US"
    assert scheduler.eta(0.0, RequestId("r1")) is None


@pytest.mark.parametrize("waiting", [0, 1])
@pytest.mark.parametrize(
    "topology",
    [
        replace(BASE, models=(ModelSpec("a"), ModelSpec("b", limit=0))),
        changed(us=replace(BASE.backends[0], slots=0)),
        replace(
            BASE,
            backends=(replace(BASE.backends[0], group="g"), BASE.backends[1]),
            groups=(GroupSpec("g", 0),),
        ),
    ],
    ids=["paused", "no slots", "cap of 0"],
)
def test_nothing_is_predicted_where_nothing_starts(topology: Topology, waiting: int) -> None:
    scheduler = Scheduler(topology)
    for number in range(waiting):
        scheduler.submit(0.0, request(f"r{number}", "b"))
        started(scheduler)
    assert scheduler.eta_of_new(0.0, "b", "US", 0) is None
