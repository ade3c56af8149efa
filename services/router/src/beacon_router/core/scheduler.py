"""Which inference runs next: facts in, decisions out. No clock, no I/O, no tasks."""

from beacon_router.core.decisions import Decision, Eta, Health, Outcome, Request, RequestId, Why
from beacon_router.core.snapshot import Snapshot
from beacon_router.core.topology import LimitName, Policy, Topology


class UnknownRequestError(LookupError):
    """The scheduler does not know a request of this id in the state that the call needs."""


class DuplicateRequestError(ValueError):
    """A request of this id waits or runs already."""


class Scheduler:
    """Every method takes `now`, seconds of a clock that never goes back, and returns at once.

    Facts change the state; `next` then says all that can start. The usual shape of the shell is
    `scheduler.fact(now, ...)` followed by `for decision in scheduler.next(now): ...`.
    After `next` nothing that could start is left waiting, so nothing has to be polled:
    the only moment that matters without a new fact is `next_wakeup`.
    """

    def __init__(self, topology: Topology, policy: Policy | None = None) -> None:
        raise NotImplementedError

    # Requests

    def can_serve(self, model: str, region: str, *, pinned: bool) -> bool:
        """Whether a configured backend could ever run it, whatever its health."""
        raise NotImplementedError

    def submit(self, now: float, request: Request) -> None:
        """Join the main queue of its region (the paid front of it, if `front`)."""
        raise NotImplementedError

    def retry(self, now: float, request: Request, failed_in: str) -> None:
        """Its backoff is over: join the global retry queue, or its region's own when pinned."""
        raise NotImplementedError

    def cancel(self, now: float, request: RequestId) -> bool:
        """Forget a waiting request: True. False: it runs (abort it, then call `finished`) or is unknown."""
        raise NotImplementedError

    def to_front(self, now: float, request: RequestId) -> bool:
        """Move a waiting request to the paid front, behind those that paid before; False if it does not wait.

        One in a retry queue stays there, because that goes before the front.
        """
        raise NotImplementedError

    def finished(
        self,
        now: float,
        request: RequestId,
        outcome: Outcome,
        *,
        load_s: float | None = None,
        run_s: float | None = None,
    ) -> None:
        """A running request ended: its slot is free, and what was measured feeds the moving averages."""
        raise NotImplementedError

    # Backends and limits

    def model_loaded(self, now: float, backend: str, model: str) -> None:
        """The backend holds the model now (a load ended, or it says so)."""
        raise NotImplementedError

    def model_lost(self, now: float, backend: str, model: str | None = None) -> None:
        """The backend no longer holds the model; None: it holds none (it was restarted)."""
        raise NotImplementedError

    def set_health(self, now: float, backend: str, health: Health) -> None:
        """What the breaker of a backend says. All are closed at first."""
        raise NotImplementedError

    def set_capacity(self, now: float, limit: LimitName, held: int) -> None:
        """How many tokens of a shared cap the shell holds now, those in use included.

        At first the whole cap is held, which is right for one router without replicas. Fewer than are in
        use is allowed: nothing new starts under that limit until enough has finished.
        """
        raise NotImplementedError

    def demand(self) -> dict[LimitName, int]:
        """For each limit, how many tokens could be in use now: those used, and those that work waits for."""
        raise NotImplementedError

    # Decisions and questions

    def next(self, now: float) -> list[Decision]:
        """All that can start or has expired now, in the order in which it was decided."""
        raise NotImplementedError

    def next_wakeup(self) -> float | None:
        """The earliest `start_by` of what waits: call `next` then, even if nothing else happens."""
        raise NotImplementedError

    def position(self, request: RequestId) -> int | None:
        """1 for the next of those that compete for the same backends; None when it does not wait."""
        raise NotImplementedError

    def eta(self, now: float, request: RequestId) -> Eta | None:
        """When it will start; None when it does not wait."""
        raise NotImplementedError

    def eta_of_new(self, now: float, model: str, region: str, rank: int) -> Eta:
        """What a request that came now would wait."""
        raise NotImplementedError

    def why(self, now: float, request: RequestId) -> Why | None:
        """What it waits for; None when it does not wait."""
        raise NotImplementedError

    def snapshot(self, now: float) -> Snapshot:
        """Everything a status page shows."""
        raise NotImplementedError

    def waiting(self) -> int:
        """How many wait, in all queues."""
        raise NotImplementedError

    def running(self) -> int:
        """How many run."""
        raise NotImplementedError
