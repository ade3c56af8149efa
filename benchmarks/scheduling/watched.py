"""The scheduler with the invariants looking on: every fact and decision of a simulated run is checked."""

from beacon_router.scheduling import Decision, Eta, Outcome, Policy, Request, RequestId, Scheduler, Topology
from benchmarks.scheduling.invariants import Watch


class Watched:
    """The doors that the simulator uses. Raises `Violation` at the first decision that must not be."""

    def __init__(self, topology: Topology) -> None:
        policy = Policy()
        self.watch = Watch(topology, policy)
        self._scheduler = Scheduler(topology, policy)

    def submit(self, now: float, request: Request) -> None:
        self._scheduler.submit(now, request)
        self.watch.submitted(now, request)

    def finished(
        self, now: float, request: RequestId, outcome: Outcome, *, load_s: float | None, run_s: float | None
    ) -> None:
        self._scheduler.finished(now, request, outcome, load_s=load_s, run_s=run_s)
        self.watch.finished(now, request, outcome, load_s, run_s)

    def model_loaded(self, now: float, backend: str, model: str) -> None:
        self._scheduler.model_loaded(now, backend, model)
        self.watch.world.model_loaded(now, backend, model)

    def next(self, now: float) -> list[Decision]:
        decisions = self._scheduler.next(now)
        self.watch.decided(
            now, decisions, waiting=self._scheduler.waiting(), running=self._scheduler.running()
        )
        return decisions

    def next_wakeup(self) -> float | None:
        return self._scheduler.next_wakeup()

    def eta(self, now: float, request: RequestId) -> Eta | None:
        return self._scheduler.eta(now, request)
