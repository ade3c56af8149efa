"""Which inference runs next: facts in, decisions out. No clock, no I/O, no tasks."""

from collections.abc import Sequence
from math import inf

from beacon_router.scheduling.adoption import carry_backends, carry_queues, carry_runs, with_leaving
from beacon_router.scheduling.decisions import Decision, Eta, Health, Outcome, Request, RequestId, Why
from beacon_router.scheduling.dispatch import Dispatcher
from beacon_router.scheduling.forecast.calibration import Calibration
from beacon_router.scheduling.forecast.estimator import Estimator
from beacon_router.scheduling.reports.collect_snapshot import collect_snapshot
from beacon_router.scheduling.reports.demand import demand
from beacon_router.scheduling.reports.explain import explain
from beacon_router.scheduling.reports.snapshot import Snapshot
from beacon_router.scheduling.state.cluster_state import ClusterState
from beacon_router.scheduling.state.queues import RequestQueues
from beacon_router.scheduling.state.request_queue import QueueKind
from beacon_router.scheduling.state.topology import LimitName, Policy, Topology

_NONE: frozenset[str] = frozenset()


class UnknownRequestError(LookupError):
    """No request of this id runs."""


class DuplicateRequestError(ValueError):
    """A request of this id waits or runs already."""


class Scheduler:
    """`now` is seconds of a monotonic clock; every method returns at once.

    Facts change the state; `next` then returns all that can start: `scheduler.fact(...)` is followed
    by `for decision in scheduler.next(now): ...`. Without a new fact only `next_wakeup` matters.
    """

    def __init__(self, topology: Topology, policy: Policy | None = None) -> None:
        self._state = ClusterState(topology, policy or Policy())
        self._queues = RequestQueues(self._state)
        self._calibration = Calibration(len(self._state.policy.tiers))
        self._estimator = Estimator(self._state, self._queues, self._calibration)
        self._dispatcher = Dispatcher(self._state, self._queues, self._calibration)

    # Requests

    def submit(self, now: float, request: Request) -> None:
        """Join the main queue of its region (the paid front of it, if `front`; the queue of the backend
        where it runs already, if there is one)."""
        self._accept(now, request, QueueKind.FRONT if request.front else QueueKind.MAIN, request.region)

    def retry(
        self, now: float, request: Request, failed_in: str, tried: frozenset[str] = frozenset()
    ) -> None:
        """Its backoff is over: join the global retry queue, or its region's own when pinned. `tried`: all
        regions in which it failed."""
        if request.pinned:
            self._accept(now, request, QueueKind.REGION_RETRY, request.region)
        else:
            if failed_in not in self._state.regions:  # it was removed meanwhile
                failed_in = request.region
            avoided = self._state.avoided(request, failed_in, tried)
            self._accept(now, request, QueueKind.GLOBAL_RETRY, failed_in, avoided)

    def requeue(self, now: float, request: Request) -> None:
        """Its run was aborted for no fault of its own: join the retry queue of its region."""
        self._accept(now, request, QueueKind.REGION_RETRY, request.region)

    def cancel(self, request: RequestId) -> bool:
        """Remove a waiting request: True. False: it runs (abort it, then call `finished`) or is unknown."""
        queued = self._queues.waiting.get(request)
        if queued is not None:
            self._dispatcher.remove(queued)
        return queued is not None

    def to_front(self, request: RequestId) -> bool:
        """Move a waiting request to the paid front, behind those that paid before; False if it does not wait.

        A request in a retry queue stays there, because that is served before the front.
        """
        queued = self._queues.waiting.get(request)
        if queued is not None and queued.queue.kind is QueueKind.MAIN:
            self._dispatcher.mark_dirty(queued.queue)
            self._dispatcher.mark_dirty(self._queues.to_front(queued))
        return queued is not None

    def finished(
        self,
        now: float,
        request: RequestId,
        outcome: Outcome,
        *,
        load_s: float | None = None,
        run_s: float | None = None,
    ) -> None:
        """A running request ended: its slot is free, and the measured seconds feed the moving averages.

        Without a measurement, a completed run that waited for no load took as long as the slot was busy. One
        with a load of unknown length is charged to its user as expected.
        """
        run = self._dispatcher.runs.get(request)
        if run is None:
            raise UnknownRequestError(f"{request} does not run")
        backend, model = run.backend, run.request.model
        if load_s is not None and run.needs_load:
            backend.learn_load(run, load_s)
        if run_s is None and not run.waited_for_load:
            run_s = now - run.started
        if run_s is not None and outcome is Outcome.COMPLETED:
            backend.runs_s.add(model, run_s, run.request.size)
        if run_s is None:
            run_s = run.charged_s if outcome is Outcome.COMPLETED else 0.0
        shares = self._state.shares[run.queue.region][run.request.rank]
        shares.ended(run.user, (run_s - run.charged_s) / run.request.weight)
        backend.region.outcomes[outcome] += 1
        self._dispatcher.end(now, run)

    # Backends and limits

    def model_loaded(self, now: float, backend: str, model: str) -> None:
        """The backend has the model loaded now (a load ended, or its health check reports it)."""
        found = self._state.backends[backend]
        found.model_loaded(now, model)
        self._dispatcher.mark_regions_dirty([found.region])

    def model_lost(self, backend: str, model: str | None = None) -> None:
        """The backend no longer has the model loaded; None: it has none (it was restarted)."""
        found = self._state.backends[backend]
        for loaded in list(found.loaded):
            if model is None or loaded == model:
                found.unload(loaded)
        self._dispatcher.mark_regions_dirty([found.region])

    def set_health(self, backend: str, health: Health) -> None:
        """The state of a backend's breaker. All are closed at first."""
        found = self._state.backends[backend]
        found.health = health
        found.probe = None
        found.refresh()
        self._estimator.forget()
        self._queues.update_eligibility(found.spec.models)
        self._dispatcher.mark_regions_dirty(self._state.regions.values())

    def set_capacity(self, limit: LimitName, held: int) -> None:
        """How many tokens of a shared cap this router holds now, those in use included.

        At first the whole cap is held, which is right for one router without replicas. Fewer than are in
        use is allowed: nothing new starts under that limit until enough has finished.
        """
        known = self._state.limits[limit]
        if not 0 <= held <= known.cap:
            raise ValueError(f"{limit} has a cap of {known.cap}: {held} cannot be held")
        if held != known.held:
            known.held = held
            self._estimator.forget()
            self._dispatcher.mark_regions_dirty(known.regions)
            self._dispatcher.token_freed(known)

    def demand(self) -> dict[LimitName, int]:
        """For each limit, how many tokens could be in use now: those used, and those that work waits for."""
        return demand(self._state.limits.values(), self._queues)

    def serves(self, backend: str, model: str) -> bool:
        """Whether there is such a backend, with the model."""
        found = self._state.backends.get(backend)
        return found is not None and model in found.spec.models

    @property
    def topology(self) -> Topology:
        """With backends that are gone, as long as a run has not ended there."""
        return self._state.topology

    def can_serve(self, request: Request) -> bool:
        """A backend of the configuration serves it where it may run, now or when it is resumed."""
        return self._state.can_serve(request)

    def adopt(
        self, topology: Topology, policy: Policy, ranks: Sequence[int] | None = None
    ) -> list[RequestId]:
        """Go on with another topology and policy. Running requests end where they run, also on backends that
        are gone; waiting ones keep their place. Returns those that no backend serves: they wait no longer.

        `ranks`: the new rank of each old one; left out, they are the same. All of each limit is held, until
        `set_capacity` says otherwise.
        """
        before, waiting, runs = self._state, self._queues, self._dispatcher.runs
        known = with_leaving(topology, before, runs.values(), waiting)
        state = ClusterState(known, policy, before.durations)
        new_ranks = range(len(before.policy.tiers)) if ranks is None else ranks
        queues = RequestQueues(state)
        carry_backends(before, state)
        unserved = carry_queues(before, state, waiting, queues, new_ranks)
        carry_runs(runs.values(), before, state, new_ranks)
        if list(new_ranks) != list(range(len(policy.tiers))):
            self._calibration = Calibration(len(policy.tiers))
        self._state, self._queues = state, queues
        self._estimator = Estimator(state, queues, self._calibration)
        self._dispatcher = self._dispatcher.on(state, queues, self._calibration)
        return unserved

    # Decisions and questions

    def next(self, now: float) -> list[Decision]:
        """All that can start or has expired now, in the order in which it was decided."""
        return self._dispatcher.next(now)

    def next_wakeup(self) -> float | None:
        """Call `next` then, even without a new fact: a `start_by` comes, or a wait of the policy ends."""
        if not self._queues.waiting:
            return None
        wakeup = self._dispatcher.next_wakeup()
        deadline = self._queues.next_deadline()
        if deadline is not None:
            wakeup = min(wakeup, deadline)
        return None if wakeup == inf else wakeup

    def position(self, now: float, request: RequestId) -> int | None:
        """1 + the number of requests that the policy would start before it, of those that compete for the
        same backends; None when it does not wait."""
        queued = self._queues.waiting.get(request)
        return None if queued is None else self._estimator.position(now, queued)

    def eta(self, now: float, request: RequestId) -> Eta | None:
        """When it will start; None when it does not wait or nothing can run it: `why` has the reason."""
        queued = self._queues.waiting.get(request)
        return None if queued is None else self._estimator.of_waiting(now, queued)

    def eta_of_new(
        self, now: float, model: str, region: str, rank: int, needs: frozenset[str] = frozenset()
    ) -> Eta | None:
        """The wait of a new request of a user without other requests; None: nothing can run it."""
        return self._estimator.of_new(now, model, region, rank, needs)

    def starts_at_once(self, model: str, region: str, needs: frozenset[str] = frozenset()) -> bool:
        """A new request would have no wait: nothing waits for the backends of the region that can run it, and
        a free one has its model loaded."""
        sets = self._state.sets(region, model, needs)
        return (
            not any(backend_set.queues for backend_set in sets)
            and not self._state.regions[region].blocked(model)
            and any(model in backend.loaded for each in sets for backend in each.usable())
        )

    def why(self, now: float, request: RequestId) -> Why | None:
        """What it waits for; None when it does not wait."""
        queued = self._queues.waiting.get(request)
        return None if queued is None else explain(queued, self._estimator.position(now, queued) - 1)

    def snapshot(self, now: float) -> Snapshot:
        """Everything a status page shows."""
        return collect_snapshot(now, self._state, self._queues, self._estimator)

    def waiting(self) -> int:
        """How many requests wait, in all queues."""
        return len(self._queues.waiting)

    def running(self) -> int:
        """How many requests run."""
        return len(self._dispatcher.runs)

    def __repr__(self) -> str:
        regions = "; ".join(repr(region) for region in self._state.regions.values())
        return f"<Scheduler: {self.waiting()} waiting, {self.running()} running; {regions}>"

    def _accept(
        self,
        now: float,
        request: Request,
        kind: QueueKind,
        region: str,
        avoided: frozenset[str] = frozenset(),
    ) -> None:
        if request.id in self._queues.waiting or request.id in self._dispatcher.runs:
            raise DuplicateRequestError(f"{request.id} waits or runs already")
        if request.model not in self._state.models or region not in self._state.regions:
            raise ValueError(f"no model {request.model!r} or no region {region!r}")
        if not 0 <= request.rank < len(self._state.policy.tiers):
            raise ValueError(f"no tier has rank {request.rank}")
        if not 0.0 < request.weight < inf:
            raise ValueError(f"the weight of a user is above 0, not {request.weight}")
        if request.backend is not None:
            kind, region, avoided = QueueKind.ATTACH, self._state.backends[request.backend].region.name, _NONE
        self._dispatcher.mark_dirty(self._queues.join(now, request, kind, region, avoided))
