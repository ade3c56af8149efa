"""Which inference runs next: facts in, decisions out. No clock, no I/O, no tasks."""

from typing import Final

from beacon_router.scheduling.census import take_snapshot
from beacon_router.scheduling.decisions import Decision, Eta, Health, Outcome, Request, RequestId, Why
from beacon_router.scheduling.demand import demand
from beacon_router.scheduling.dispatch import Dispatcher
from beacon_router.scheduling.estimates import Estimator
from beacon_router.scheduling.explain import explain
from beacon_router.scheduling.floor import Floor
from beacon_router.scheduling.lanes import Lane, Queue, Ticket
from beacon_router.scheduling.queues import Queues
from beacon_router.scheduling.snapshot import Snapshot
from beacon_router.scheduling.topology import LimitName, Policy, Topology

_COMPLETED: Final = Outcome.COMPLETED
"""Asking an enum for a member costs as much as a call, and this one is asked for in every decision."""


class UnknownRequestError(LookupError):
    """No request of this id runs."""


class DuplicateRequestError(ValueError):
    """A request of this id waits or runs already."""


class Scheduler:
    """Every method takes `now`, seconds of a clock that never goes back, and returns at once.

    Facts change the state; `next` then says all that can start. The usual shape of the shell is
    `scheduler.fact(now, ...)` followed by `for decision in scheduler.next(now): ...`.
    Nothing has to be polled: without a new fact, the only moment that matters is `next_wakeup`.
    """

    def __init__(self, topology: Topology, policy: Policy | None = None) -> None:
        self._floor = Floor(topology, policy or Policy())
        self._queues = Queues(self._floor)
        self._estimator = Estimator(self._floor, self._queues)
        self._dispatcher = Dispatcher(self._floor, self._queues, self._estimator)

    # Requests

    def can_serve(self, model: str, region: str, *, pinned: bool) -> bool:
        """Whether a configured backend could ever run it, whatever its health."""
        if pinned:
            return bool(self._floor.fleets(region, model))
        return any(self._floor.fleets(name, model) for name in self._floor.regions)

    def submit(self, now: float, request: Request) -> None:
        """Join the main queue of its region (the paid front of it, if `front`)."""
        self._accept(now, request, Queue.FRONT if request.front else Queue.MAIN, request.region)

    def retry(self, now: float, request: Request, failed_in: str) -> None:
        """Its backoff is over: join the global retry queue, or its region's own when pinned."""
        if request.pinned:
            self._accept(now, request, Queue.REGION_RETRY, request.region)
        else:
            self._accept(now, request, Queue.GLOBAL_RETRY, failed_in)

    def cancel(self, now: float, request: RequestId) -> bool:
        """Forget a waiting request: True. False: it runs (abort it, then call `finished`) or is unknown."""
        del now
        found = self._find(request)
        if found is not None:
            self._dispatcher.forget(*found)
        return found is not None

    def to_front(self, now: float, request: RequestId) -> bool:
        """Move a waiting request to the paid front, behind those that paid before; False if it does not wait.

        One in a retry queue stays there, because that goes before the front.
        """
        del now
        found = self._find(request)
        if found is not None and found[1].queue is Queue.MAIN:
            self._dispatcher.stir(found[1])
            self._dispatcher.stir(self._queues.to_front(*found))
        return found is not None

    def finished(
        self,
        now: float,
        request: RequestId,
        outcome: Outcome,
        *,
        load_s: float | None = None,
        run_s: float | None = None,
    ) -> None:
        """A running request ended: its slot is free, and what was measured feeds the moving averages.

        Not measured: a completed run without a load took as long as the slot was busy.
        """
        run = self._dispatcher.runs.get(request)
        if run is None:
            raise UnknownRequestError(f"{request} does not run")
        backend, model = run.backend, run.request.model
        if load_s is not None:
            backend.loads_s.add(model, load_s)
        if outcome is _COMPLETED and (run_s is not None or not run.loading):
            backend.runs_s.add(model, now - run.began if run_s is None else run_s, run.request.size)
        backend.fleet.region.outcomes[outcome] += 1
        self._dispatcher.free(now, run)

    # Backends and limits

    def model_loaded(self, now: float, backend: str, model: str) -> None:
        """The backend holds the model now (a load ended, or it says so)."""
        machine = self._floor.backends[backend]
        machine.holds(now, model)
        self._dispatcher.stir_regions([machine.fleet.region])

    def model_lost(self, now: float, backend: str, model: str | None = None) -> None:
        """The backend no longer holds the model; None: it holds none (it was restarted)."""
        del now
        machine = self._floor.backends[backend]
        for held in list(machine.loaded):
            if model is None or held == model:
                machine.lose(held)
        self._dispatcher.stir_regions([machine.fleet.region])

    def set_health(self, now: float, backend: str, health: Health) -> None:
        """What the breaker of a backend says. All are closed at first."""
        del now
        machine = self._floor.backends[backend]
        machine.health = health
        machine.probe = None
        machine.refresh()
        self._estimator.forget()
        self._queues.entitle_again(machine.spec.models)
        self._dispatcher.stir_regions(self._floor.regions.values())

    def set_capacity(self, now: float, limit: LimitName, held: int) -> None:
        """How many tokens of a shared cap the shell holds now, those in use included.

        At first the whole cap is held, which is right for one router without replicas. Fewer than are in
        use is allowed: nothing new starts under that limit until enough has finished.
        """
        del now
        known = self._floor.limits[limit]
        if not 0 <= held <= known.cap:
            raise ValueError(f"{limit} has a cap of {known.cap}: {held} cannot be held")
        known.held = held
        self._dispatcher.token_freed(known)

    def demand(self) -> dict[LimitName, int]:
        """For each limit, how many tokens could be in use now: those used, and those that work waits for."""
        return {name: demand(limit, self._queues) for name, limit in self._floor.limits.items()}

    # Decisions and questions

    def next(self, now: float) -> list[Decision]:
        """All that can start or has expired now, in the order in which it was decided."""
        return self._dispatcher.next(now)

    def next_wakeup(self) -> float | None:
        """Call `next` then, even if nothing else happens: a `start_by` comes, or somebody's patience ends."""
        if not self._queues.deadlines and not self._floor.patience.ends:
            return None
        moments = (self._queues.next_deadline(), self._floor.patience.next_end())
        return min((moment for moment in moments if moment is not None), default=None)

    def position(self, request: RequestId) -> int | None:
        """1 for the next of those that compete for the same backends; None when it does not wait."""
        found = self._find(request)
        return None if found is None else self._queues.ahead(*found) + 1

    def eta(self, now: float, request: RequestId) -> Eta | None:
        """When it will start; None when it does not wait."""
        found = self._find(request)
        return None if found is None else self._estimator.of_waiting(now, *found)

    def eta_of_new(self, now: float, model: str, region: str, rank: int) -> Eta:
        """What a request that came now would wait."""
        return self._estimator.of_new(now, model, region, rank)

    def why(self, now: float, request: RequestId) -> Why | None:
        """What it waits for; None when it does not wait."""
        del now
        found = self._find(request)
        return None if found is None else explain(self._floor, self._queues, *found)

    def snapshot(self, now: float) -> Snapshot:
        """Everything a status page shows."""
        return take_snapshot(now, self._floor, self._queues, self._estimator)

    def waiting(self) -> int:
        """How many wait, in all queues."""
        return len(self._queues.tickets)

    def running(self) -> int:
        """How many run."""
        return len(self._dispatcher.runs)

    def __repr__(self) -> str:
        regions = "; ".join(repr(region) for region in self._floor.regions.values())
        retries = self._queues.global_retry.count
        return (
            f"<Scheduler: {self.waiting()} waiting ({retries} to retry anywhere), "
            f"{self.running()} running; {regions}>"
        )

    def _find(self, request: RequestId) -> tuple[Ticket, Lane] | None:
        ticket = self._queues.tickets.get(request)
        return None if ticket is None or ticket.lane is None else (ticket, ticket.lane)

    def _accept(self, now: float, request: Request, queue: Queue, region: str) -> None:
        if request.id in self._queues.tickets or request.id in self._dispatcher.runs:
            raise DuplicateRequestError(f"{request.id} waits or runs already")
        if request.model not in self._floor.models or region not in self._floor.regions:
            raise ValueError(f"no model {request.model!r} or no region {region!r}")
        if not 0 <= request.rank < len(self._floor.policy.tiers):
            raise ValueError(f"no tier has rank {request.rank}")
        self._dispatcher.stir(self._queues.join(now, request, queue, region))
