"""The scheduler and a slow, obvious model of it are told the same facts and must decide the same."""

from random import Random

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from beacon_router.scheduling import (
    BackendSpec,
    Decision,
    Health,
    ModelSpec,
    Outcome,
    Reason,
    RegionSpec,
    RequestId,
    Start,
    Topology,
)
from tests.unit.router_core.rig import (
    Rig,
    many_gpus,
    mixed_topology,
    patient_policy,
    small_policy,
    two_gpus,
)
from tests.unit.router_core.stories import SIZES, Story

SETTINGS = settings(
    max_examples=40,
    stateful_step_count=40,
    phases=(Phase.explicit, Phase.generate),  # a failure is told as it was found: shrinking it takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


class SchedulerMachine(RuleBasedStateMachine):
    topology: Topology
    policy = small_policy()

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(self.topology, self.policy, compare=True)

    @rule(data=st.data(), rank=st.integers(0, 2), pinned=st.booleans(), front=st.integers(0, 9))
    def submit(self, data: st.DataObject, rank: int, pinned: bool, front: int) -> None:
        model = data.draw(st.sampled_from([model.name for model in self.topology.models]))
        region = data.draw(st.sampled_from([region.name for region in self.topology.regions]))
        patience_s = data.draw(st.sampled_from([None, None, None, 1.0, 5.0]))
        size = data.draw(st.sampled_from(SIZES))
        self.rig.submit(
            model, region, rank, pinned=pinned, front=front == 0, patience_s=patience_s, size=size
        )

    @rule(data=st.data(), number=st.integers(2, 8), rank=st.integers(0, 2))
    def submit_many(self, data: st.DataObject, number: int, rank: int) -> None:
        for _ in range(number):
            model = data.draw(st.sampled_from([model.name for model in self.topology.models]))
            size = data.draw(st.sampled_from(SIZES))
            self.rig.submit(model, self.topology.regions[0].name, rank, size=size)
        self.rig.next()

    @precondition(lambda self: self.rig.running)
    @rule(data=st.data(), measured=st.sampled_from([None, 0.5, 4.0]), loaded=st.sampled_from([None, 1.5]))
    def finish(self, data: st.DataObject, measured: float | None, loaded: float | None) -> None:
        request = data.draw(st.sampled_from(self.rig.running))
        self.rig.finish(request, load_s=loaded, run_s=measured)

    @precondition(lambda self: self.rig.running)
    @rule(data=st.data(), after_s=st.sampled_from([0.0, 2.0]))
    def fail_and_retry(self, data: st.DataObject, after_s: float) -> None:
        self.rig.fail_and_retry(data.draw(st.sampled_from(self.rig.running)), after_s=after_s)

    @precondition(lambda self: self.rig.running)
    @rule(data=st.data())
    def cancel_a_run(self, data: st.DataObject) -> None:
        self.rig.finish(data.draw(st.sampled_from(self.rig.running)), Outcome.CANCELLED)

    @precondition(lambda self: self.rig.waiting)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.rig.cancel(data.draw(st.sampled_from(self.rig.waiting)))

    @precondition(lambda self: self.rig.waiting)
    @rule(data=st.data())
    def pay_for_the_front(self, data: st.DataObject) -> None:
        self.rig.to_front(data.draw(st.sampled_from(self.rig.waiting)))

    @rule(data=st.data(), health=st.sampled_from(Health))
    def breaker(self, data: st.DataObject, health: Health) -> None:
        self.rig.set_health(data.draw(st.sampled_from(self.topology.backends)).name, health)

    @precondition(lambda self: self.topology.limits)
    @rule(data=st.data())
    def share_of_a_cap(self, data: st.DataObject) -> None:
        limit = data.draw(st.sampled_from(sorted(self.topology.limits)))
        self.rig.set_capacity(limit, data.draw(st.integers(0, self.topology.limits[limit])))

    @rule(data=st.data(), loses=st.booleans())
    def a_backend_says_what_it_holds(self, data: st.DataObject, loses: bool) -> None:
        backend = data.draw(st.sampled_from(self.topology.backends))
        model = data.draw(st.sampled_from(sorted(backend.models)))
        if loses:
            self.rig.model_lost(backend.name, data.draw(st.sampled_from([None, model])))
        else:
            self.rig.model_loaded(backend.name, model)

    @rule(seconds=st.sampled_from([0.0, 0.3, 1.0, 3.0, 7.0]))
    def time_passes(self, seconds: float) -> None:
        self.rig.pass_time(seconds)

    @rule()
    def ask(self) -> None:
        self.rig.next()

    @invariant()
    def positions_agree(self) -> None:
        assert self.rig.reference is not None
        for request in self.rig.waiting:
            assert self.rig.scheduler.position(request) == self.rig.reference.position(request)

    @invariant()
    def questions_have_answers(self) -> None:
        for request in self.rig.waiting:
            eta = self.rig.scheduler.eta(self.rig.now, request)
            assert eta is not None
            assert 0 <= eta.p50_s <= eta.p90_s
            assert str(self.rig.scheduler.why(self.rig.now, request))

    def teardown(self) -> None:
        self.rig.drain()


class OnMixedBackends(SchedulerMachine):
    topology = mixed_topology()


class OnTwoGpus(SchedulerMachine):
    topology = two_gpus()


class OnManyGpus(SchedulerMachine):
    topology = many_gpus()
    policy = patient_policy()


TestOnMixedBackends = OnMixedBackends.TestCase
TestOnMixedBackends.settings = SETTINGS
TestOnTwoGpus = OnTwoGpus.TestCase
TestOnTwoGpus.settings = SETTINGS
TestOnManyGpus = OnManyGpus.TestCase
TestOnManyGpus.settings = SETTINGS


@pytest.mark.parametrize("patience", [0.0, 5.0])
def test_whole_stories_agree_without_patience_and_with_much(patience: float) -> None:
    for seed in range(12):
        Story(Rig(mixed_topology(), small_policy(patience), compare=True), seed).tell(150)


def test_whole_stories_agree_in_which_many_stand_aside() -> None:
    for seed in range(25):
        Story(Rig(many_gpus(), patient_policy(), compare=True), seed).tell(200)


def test_sizes_decide_nothing_but_by_when_runs_are_expected_to_end() -> None:
    """Where nobody may stand aside for the end of a run, the same starts follow whatever is told."""
    assert _starts(two_gpus(), told=True) == _starts(two_gpus(), told=False)


def _starts(topology: Topology, *, told: bool) -> list[list[Decision]]:
    rig = Rig(topology, small_policy(patience=0.0), compare=True)
    chance, starts = Random(7), []
    for number in range(300):
        size = chance.choice([1.0, 2.0, 5.0])
        rig.submit("a", "US", chance.randrange(3), size=size if told else None)
        starts.append(rig.next())
        if number % 3:
            ended = rig.running[0]
            rig.finish(ended, run_s=float(len(ended)))
            for request in rig.waiting[-1:]:
                rig.scheduler.eta(rig.now, request)
            rig.pass_time(0.4)
    return starts


def test_whoever_follows_a_head_that_left_while_its_model_was_shut_has_not_lost_its_turn() -> None:
    models = (ModelSpec("a"), ModelSpec("c", exclusive=True))
    gpu = BackendSpec("gpu", "US", frozenset("ac"), slots=2, loaded_models=2)
    rig = Rig(Topology((RegionSpec("US"),), (gpu,), models), small_policy(), compare=True)
    exclusive, other = rig.submit("c", "US", 0), rig.submit("a", "US", 0)
    head, follower = rig.submit("c", "US", 2), rig.submit("c", "US", 2)
    rig.pass_time(13.0)
    newer, newest = rig.submit("a", "US", 0), rig.submit("a", "US", 0)

    rig.finish(other)
    assert _started(rig.next()) == [(newer, Reason.ORDER)]  # the head is past its bound, and shut out
    rig.cancel(head)
    rig.finish(exclusive)

    assert _started(rig.next()) == [(follower, Reason.STARVATION)]
    assert rig.waiting == [newest]


def _started(decisions: list[Decision]) -> list[tuple[RequestId, Reason]]:
    return [(decision.id, decision.reason) for decision in decisions if isinstance(decision, Start)]
