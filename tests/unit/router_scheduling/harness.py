"""A scheduler under test with the invariants and the reference model: all receive each fact."""

from collections.abc import Iterator

from beacon_router.scheduling import (
    BackendSpec,
    Decision,
    Expired,
    GroupSpec,
    Health,
    LimitName,
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
from tests.unit.router_scheduling.invariants import InvariantChecker
from tests.unit.router_scheduling.reference import Reference
from tests.unit.router_scheduling.reference_state import ReferenceState

SMALL_TIERS = (TierRule(6.0, 4), TierRule(9.0, 2), TierRule(12.0, 1))


def small_policy(max_loads: float = 1.0) -> Policy:
    """Bounds of seconds, so that tiers starve in a short scenario."""
    return Policy(batch_limit=2, tiers=SMALL_TIERS, bypass_limit=2, warm_wait_max_loads=max_loads)


def patient_policy() -> Policy:
    """In which it takes long until a tier starves or a warm wait ends."""
    tiers = tuple(TierRule(10 * tier.starvation_bound_s, tier.weight) for tier in SMALL_TIERS)
    return Policy(batch_limit=2, tiers=tiers, bypass_limit=2, warm_wait_max_loads=5.0)


def mixed_topology() -> Topology:
    """Three regions; shared and own models, an exclusive one, a limited one, a group over two regions.

    The slots of two backends are shared with other routers, one of them inside the group.
    """
    return Topology(
        regions=(RegionSpec("US"), RegionSpec("EU", concurrency=2), RegionSpec("ASIA")),
        groups=(GroupSpec("cloud", 3),),
        models=(
            ModelSpec("a", expected_load_s=2.0, expected_run_s=1.0),
            ModelSpec("b", expected_load_s=3.0, expected_run_s=2.0),
            ModelSpec("c", expected_load_s=1.0, expected_run_s=1.0, exclusive=True),
            ModelSpec("d", expected_load_s=1.0, expected_run_s=3.0, limit=2),
        ),
        backends=(
            BackendSpec("us-1", "US", frozenset("abc"), group="cloud"),
            BackendSpec("us-2", "US", frozenset("abc"), group="cloud"),
            BackendSpec("us-3", "US", frozenset("cd"), slots=2, loaded_models=2, shared=True),
            BackendSpec("eu-1", "EU", frozenset("abcd"), slots=2, group="cloud", shared=True),
            BackendSpec("eu-2", "EU", frozenset("abcd")),
            BackendSpec("asia-1", "ASIA", frozenset("ab")),
        ),
    )


def two_gpus() -> Topology:
    """One region, two GPUs, three models: enough for affinity, warm waits and starvation to matter."""
    models = tuple(ModelSpec(name, expected_load_s=2.0, expected_run_s=1.0) for name in "abc")
    backends = tuple(BackendSpec(f"gpu-{number}", "US", frozenset("abc")) for number in (1, 2))
    return Topology(regions=(RegionSpec("US"),), models=models, backends=backends)


def many_gpus() -> Topology:
    """Many models on GPUs that hold several: many requests wait for warm backends."""
    names = "abcdefghijkl"
    models = tuple(
        ModelSpec(
            name,
            expected_load_s=8.0,
            expected_run_s=2.0,
            exclusive=name == "k",
            limit=2 if name == "l" else None,
        )
        for name in names
    )
    backends = (
        *(BackendSpec(f"us-{one}", "US", frozenset(names), loaded_models=4) for one in (1, 2, 3)),
        *(BackendSpec(f"us-{one}", "US", frozenset(names), loaded_models=2, group="cloud") for one in (4, 5)),
        BackendSpec("us-6", "US", frozenset("abcdef"), slots=2, loaded_models=2, group="cloud"),
        BackendSpec("eu-1", "EU", frozenset("abcklm"), group="cloud"),
    )
    return Topology(
        regions=(RegionSpec("US"), RegionSpec("EU")),
        groups=(GroupSpec("cloud", 3),),
        models=(*models, ModelSpec("m", expected_load_s=2.0, expected_run_s=0.5)),
        backends=backends,
    )


class SchedulerHarness:
    def __init__(self, topology: Topology, policy: Policy, *, compare: bool) -> None:
        self.topology = topology
        self.now = 0.0
        self.scheduler = Scheduler(topology, policy)
        self.checker = InvariantChecker(topology, policy)
        self.reference = Reference(topology, policy) if compare else None
        self._count = 0

    @property
    def waiting(self) -> list[RequestId]:
        return list(self.checker.state.waiting)

    @property
    def running(self) -> list[RequestId]:
        return list(self.checker.state.running)

    def submit(
        self,
        model: str,
        region: str,
        rank: int,
        *,
        pinned: bool = False,
        front: bool = False,
        wait_s: float | None = None,
        size: float | None = None,
        user: str = "",
        weight: float = 1.0,
    ) -> RequestId:
        start_by = None if wait_s is None else self.now + wait_s
        request = Request(self._name(), model, region, rank, pinned, front, start_by, size, user, weight)
        self.scheduler.submit(self.now, request)
        for state in self._states():
            state.submitted(self.now, request)
        return request.id

    def fail_and_retry(self, request: RequestId, *, after_s: float = 0.0) -> None:
        """A run fails; its backoff passes; it joins the retry queue."""
        run = self.checker.state.running[request]
        failed_in = self.checker.state.machines[run.backend].spec.region
        self.finish(request, Outcome.FAILED)
        if after_s:
            self.pass_time(after_s)
        self.scheduler.retry(self.now, run.request, failed_in)
        for state in self._states():
            state.retried(self.now, run.request, failed_in)

    def finish(
        self,
        request: RequestId,
        outcome: Outcome = Outcome.COMPLETED,
        *,
        load_s: float | None = None,
        run_s: float | None = None,
    ) -> None:
        backend = self.checker.state.running[request].backend
        model = self.checker.state.running[request].request.model
        self.scheduler.finished(self.now, request, outcome, load_s=load_s, run_s=run_s)
        self.checker.state.finished(self.now, request, outcome, load_s, run_s)
        if self.reference is not None:
            self.reference.state.finished(self.now, request, outcome, load_s, run_s)
            for limit in self.reference.state.limits_of(backend, model):
                self._freed(limit)

    def cancel(self, request: RequestId) -> None:
        assert self.scheduler.cancel(request)
        for state in self._states():
            state.leaves(request)

    def to_front(self, request: RequestId) -> None:
        assert self.scheduler.to_front(request)
        for state in self._states():
            state.moved_to_front(request)

    def set_health(self, backend: str, health: Health) -> None:
        self.scheduler.set_health(backend, health)
        for state in self._states():
            state.health_is(backend, health)

    def set_capacity(self, limit: LimitName, held: int) -> None:
        self.scheduler.set_capacity(limit, held)
        changed = self.checker.state.held[limit] != held
        for state in self._states():
            state.held[limit] = held
        if self.reference is not None and changed:
            self._freed(limit)

    def model_loaded(self, backend: str, model: str) -> None:
        self.scheduler.model_loaded(self.now, backend, model)
        for state in self._states():
            state.model_loaded(self.now, backend, model)

    def model_lost(self, backend: str, model: str | None = None) -> None:
        self.scheduler.model_lost(backend, model)
        for state in self._states():
            state.model_lost(backend, model)

    def adopt(self, topology: Topology) -> None:
        unserved = set(self.scheduler.adopt(topology, self.checker.state.policy))
        self.topology = topology
        for state in self._states():
            assert state.adopts(topology) == unserved
        self.checker.adopted()
        if self.reference is not None:
            self.reference.adopted()

    def next(self) -> list[Decision]:
        """Decide, check the invariants, and compare with the reference model."""
        decisions = self.scheduler.next(self.now)
        self.checker.decided(
            self.now, decisions, waiting=self.scheduler.waiting(), running=self.scheduler.running()
        )
        if self.reference is not None:
            expected = self.reference.next(self.now)
            assert _by_kind(decisions) == _by_kind(expected), f"{decisions} instead of {expected}"
        return decisions

    def pass_time(self, seconds: float) -> None:
        """Time passes, and `next` is called at every wakeup: nothing can start just before it."""
        self.next()
        end = self.now + seconds
        while (wakeup := self.scheduler.next_wakeup()) is not None and wakeup <= end:
            assert wakeup >= self.now, "a wakeup is in the past"
            for moment in (max(self.now, wakeup - 1e-6), wakeup):
                self.now = moment
                self.next()
        self.now = end
        self.next()

    def drain(self) -> None:
        """Everything works again: all waiting requests must run."""
        for spec in self.topology.backends:
            self.set_health(spec.name, Health.CLOSED)
        for limit, cap in self.topology.limits.items():
            self.set_capacity(limit, cap)
        self.next()
        while self.running:
            for request in self.running:
                self.finish(request)
            self.pass_time(0.5)
        servable = [request for request in self.waiting if self._can_serve(request)]
        assert not servable, f"{servable} never ran"

    def _can_serve(self, request: RequestId) -> bool:
        wanted = self.checker.state.waiting[request].request
        return any(
            wanted.model in spec.models
            and spec.slots
            and not spec.drain
            and (not wanted.pinned or spec.region == wanted.region)
            for spec in self.topology.backends
        )

    def _freed(self, limit: LimitName) -> None:
        assert self.reference is not None
        if self.reference.state.used(limit) < self.reference.state.held[limit]:
            self.reference.freed.append(limit)

    def _states(self) -> Iterator[ReferenceState]:
        yield self.checker.state
        if self.reference is not None:
            yield self.reference.state

    def _name(self) -> RequestId:
        self._count += 1
        return RequestId(f"r{self._count}")


def _by_kind(decisions: list[Decision]) -> tuple[set[RequestId], list[Start]]:
    """Requests that expire together have no order."""
    expired = {decision.id for decision in decisions if isinstance(decision, Expired)}
    return expired, [decision for decision in decisions if isinstance(decision, Start)]
