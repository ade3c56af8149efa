"""Position and expected wait of requests: by a simulation of the policy, kept while little has changed."""

from collections import Counter, defaultdict

from beacon_router.scheduling.decisions import Eta, Health, RequestId
from beacon_router.scheduling.forecast.calibration import Calibration
from beacon_router.scheduling.forecast.positions import is_exclusive, requests_ahead
from beacon_router.scheduling.forecast.simulation import NewRequest, PolicySimulation
from beacon_router.scheduling.reports.demand import demand
from beacon_router.scheduling.reports.snapshot import ForecastSnapshot, UserForecastSnapshot
from beacon_router.scheduling.state.backend_set import BackendSet
from beacon_router.scheduling.state.cluster_state import ClusterState
from beacon_router.scheduling.state.domains import CompetitionDomain
from beacon_router.scheduling.state.queues import RequestQueues
from beacon_router.scheduling.state.request_queue import QueuedRequest, QueueKind
from beacon_router.scheduling.state.topology import LimitName

_FRESH_S, _LONG = 0.05, 50
"""A simulation of up to so many dispatches is valid for so long, a longer one for longer in proportion."""
MAX_USER_PROBES = 256
"""Imagined requests in one simulation of users with waiting ones."""


class Estimator:
    __slots__ = ("_calibration", "_probings", "_queues", "_simulations", "_state", "tiers")

    def __init__(self, state: ClusterState, queues: RequestQueues, calibration: Calibration) -> None:
        self.tiers = len(state.policy.tiers)
        self._state = state
        self._queues = queues
        self._calibration = calibration
        self._simulations: dict[CompetitionDomain, PolicySimulation] = {}
        self._probings: dict[CompetitionDomain, PolicySimulation] = {}

    def of_waiting(self, now: float, queued: QueuedRequest) -> Eta | None:
        """None when nothing that could start it can run."""
        queue = queued.queue
        domains = dict.fromkeys(each.domain for each in queue.sets if can_run(each, queue.model))
        if not domains:
            return None
        ahead = requests_ahead(queued, self._state.durations)
        starts_at = min(self._start_in(now, domain, queued, ahead) for domain in domains)
        expected_s = max(0.0, starts_at - now)
        if queued.predicted is None:
            queued.predicted = (now, expected_s)
        return self._eta(queue.kind, queued.request.rank, expected_s)

    def of_new(
        self, now: float, model: str, region: str, rank: int, needs: frozenset[str] = frozenset()
    ) -> Eta | None:
        """Of a new request of a user without waiting ones; None when nothing can run it."""
        sets = self._state.sets(region, model, needs)
        if not any(can_run(each, model) for each in sets):
            return None
        simulation = self._probing(now, sets[0].domain)
        starts_at = simulation.probed.get((model, rank, ""))
        if starts_at is None:
            starts_at = simulation.later(self._waiting_up_to(sets[0].domain, rank))
        return self._eta(QueueKind.MAIN, rank, max(0.0, starts_at - now))

    def forecast(self, now: float, model: str, region: str) -> ForecastSnapshot | None:
        """What new requests wait, by tier, and the time between two starts; None when nothing can run."""
        waits = [self.of_new(now, model, region, rank) for rank in range(self.tiers)]
        known = tuple(eta.p50_s for eta in waits if eta is not None)
        if len(known) < self.tiers:
            return None
        pace_s = self._pace_s(now, model, region)
        free, then_s = self._at_once(model, region) if max(known) == 0.0 else (0, 0.0)
        return ForecastSnapshot(known, pace_s, free, then_s)

    def of_users(
        self, now: float, region: str, limit: int
    ) -> list[dict[str, dict[str, UserForecastSnapshot]]]:
        """By rank, user and model what one more request of a user with waiting ones would wait, for at most
        so many users. Only of models that can run; without probes, of those for which requests wait."""
        starts, probed, last_seqs = self._starts_by_user(now, region)
        models = {model for each in self._state.regions[region].sets for model in each.models}
        forecasts = {
            model: forecast for model in models if (forecast := self.forecast(now, model, region)) is not None
        }
        found: list[dict[str, dict[str, UserForecastSnapshot]]] = []
        for rank, shares in enumerate(self._state.shares[region]):
            found.append({})
            for user, _ in shares.waiting.most_common(limit):
                waiting, newer = Counter[str](), Counter[str]()
                for queue in shares.queues_of(user):
                    waiting[queue.model] += queue.waiting_of(user)
                    newer[queue.model] += queue.newer_of(user, last_seqs.get(queue.model, 0))
                found[rank][user] = {
                    model: _next(
                        forecast.waits_s[rank],
                        forecast.pace_s,
                        waiting[model],
                        starts[model, rank, user],
                        probed.get((model, rank, user)),
                        newer=newer[model],
                    )
                    for model, forecast in forecasts.items()
                    if waiting[model] or (model, rank, user) in probed
                }
        return found

    def _starts_by_user(
        self, now: float, region: str
    ) -> tuple[dict[NewRequest, list[float]], dict[NewRequest, float], dict[str, int]]:
        """In how many seconds waiting requests start, and probes; and by model the newest request that the
        probes are behind."""
        starts: dict[NewRequest, list[float]] = defaultdict(list)
        probed: dict[NewRequest, float] = {}
        last_seqs: dict[str, int] = {}
        for domain in {each.domain for each in self._state.regions[region].sets}:
            for request, starts_at in self._simulation(now, domain).starts.items():
                queued = self._queues.waiting.get(request)
                if queued is not None and queued.queue.kind is QueueKind.MAIN:
                    user = queued.queue.shares.user_of(queued.request)
                    starts[queued.queue.model, queued.queue.rank, user].append(max(0.0, starts_at - now))
            probing = self._probing(now, domain)
            last_seqs |= dict.fromkeys(domain.models, probing.last_seq)
            for probe, starts_at in probing.probed.items():
                probed[probe] = max(0.0, starts_at - now)
        return starts, probed, last_seqs

    def _pace_s(self, now: float, model: str, region: str) -> float:
        """As simulated, or of the slots or tokens that the model can use."""
        sets = self._state.sets(region, model)
        limits = sets[0].region.model_limits.get(model, ())
        simulation = self._simulation(now, sets[0].domain)
        if len(simulation.starts) > 1 and not limits:
            return simulation.pace_s()
        usable = [backend for each in sets for backend in each.backends if backend.health is not Health.OPEN]
        parallel = min([sum(backend.slots for backend in usable), *(limit.held for limit in limits)])
        run_s = usable[0].runs_s.of(model)
        if any(queue.model != model for queue in sets[0].domain.queues()):  # it is evicted between its runs
            run_s += usable[0].loads_s.of(model)
        return run_s / max(1, parallel)

    def _at_once(self, model: str, region: str) -> tuple[int, float]:
        """How many requests for the model can start now, and how long the next one waits for them."""
        sets = self._state.sets(region, model)
        usable = [backend for each in sets for backend in each.usable()]
        limits = {limit for backend in usable for limit in backend.limits}
        limits.update(sets[0].region.model_limits.get(model, ()))
        slots = sum(
            backend.slots - len(backend.runs) if backend.health is Health.CLOSED else 1 for backend in usable
        )
        granted = self._granted()
        tokens = [(each.cap if each.name in granted else each.held) - each.used for each in limits]
        free = min([slots, *tokens])
        if free <= 0:
            return 0, 0.0
        warm = any(model in backend.loaded for backend in usable)
        load_s = 0.0 if warm else usable[0].loads_s.of(model)
        return free, load_s + usable[0].runs_s.of(model)

    def position(self, now: float, queued: QueuedRequest) -> int:
        """1 for the request that the policy would start next, of those that compete for the same backends."""
        queue = queued.queue
        for backend_set in queue.sets:
            starts = self._simulation(now, backend_set.domain).starts
            if queued.request.id in starts:
                return 1 + self._waiting_before(starts, queued)
        return 1 + requests_ahead(queued, self._state.durations)

    def forget(self) -> None:
        """Backends or capacities changed."""
        self._simulations.clear()
        self._probings.clear()

    def _waiting_before(self, starts: dict[RequestId, float], queued: QueuedRequest) -> int:
        """An exclusive model waits for its own runs: other models do not count."""
        exclusive = is_exclusive(queued.queue)
        before = 0
        for request in starts:
            if request == queued.request.id:
                break
            other = self._queues.waiting.get(request)
            before += other is not None and (not exclusive or other.queue.model == queued.queue.model)
        return before

    def _eta(self, kind: QueueKind, rank: int, expected_s: float) -> Eta:
        return Eta(expected_s, self._calibration.p90_s(kind, rank, expected_s))

    def _start_in(self, now: float, domain: CompetitionDomain, queued: QueuedRequest, ahead: int) -> float:
        simulation = self._simulation(now, domain)
        limited = queued.queue.model if is_exclusive(queued.queue) else None
        if queued.seq > simulation.last_seq:
            return simulation.at_pace(ahead, limited)
        starts_at = simulation.starts.get(queued.request.id)
        return simulation.later(ahead, limited) if starts_at is None else starts_at

    def _waiting_up_to(self, domain: CompetitionDomain, rank: int) -> int:
        return sum(queue.size for queue in domain.queues() if queue.rank <= rank)

    def _simulation(self, now: float, domain: CompetitionDomain) -> PolicySimulation:
        """The kept one while it is fresh, else a new one."""
        kept = self._simulations.get(domain)
        if kept is None or not _fresh(now, domain.changes - kept.changes, kept):
            last_seq, granted = self._queues.last_seq, self._granted()
            kept = PolicySimulation(now, domain, self._state.shares, last_seq, granted=granted)
            self._simulations[domain] = kept
        return kept

    def _probing(self, now: float, domain: CompetitionDomain) -> PolicySimulation:
        """The same with imagined requests."""
        kept = self._probings.get(domain)
        if kept is None or not _fresh(now, domain.changes - kept.changes, kept):
            probes = self._probes(domain)
            last_seq, granted = self._queues.last_seq, self._granted()
            kept = PolicySimulation(now, domain, self._state.shares, last_seq, probes=probes, granted=granted)
            self._probings[domain] = kept
        return kept

    def _granted(self) -> set[LimitName]:
        """The limits of which this router has all tokens that it wants: more are expected to be granted to it
        when it wants them."""
        limits = self._state.limits
        wanted = demand(limits.values(), self._queues)
        return {name for name, limit in limits.items() if wanted[name] <= limit.held}

    def _probes(self, domain: CompetitionDomain) -> list[NewRequest]:
        """A request for each model and tier of a new user, and of the users with the most waiting ones."""
        waiting = Counter[tuple[int, str]]()
        for rank, shares in enumerate(self._state.shares[domain.region.name]):
            waiting.update({(rank, user): count for user, count in shares.waiting.items()})
        models = sorted(domain.models)
        users = [(rank, "") for rank in range(self.tiers)]
        users += [place for place, _ in waiting.most_common(MAX_USER_PROBES // max(1, len(models)))]
        return [(model, rank, user) for rank, user in users for model in models]


def can_run(backend_set: BackendSet, model: str) -> bool:
    """A healthy backend of this set could run the model, with the tokens that this router holds. Tokens for
    which it has no work are not requested, and expected to be free, unless the limit is 0."""
    of_model = backend_set.region.model_limits.get(model, ())
    needed = of_model if backend_set.by_model.get(model) else ()
    return any(
        all(limit.held > 0 for limit in (*backend.limits, *needed)) or not backend_set.queues
        for backend in backend_set.backends
        if backend.health is not Health.OPEN
        and backend.slots > 0
        and all(limit.cap > 0 for limit in (*backend.limits, *of_model))
    )


def _next(
    new_s: float,
    pace_s: float,
    waiting: int,
    starts_s: list[float],
    probed_s: float | None,
    *,
    newer: int,
) -> UserForecastSnapshot:
    """After the waiting requests of a user, of which these start in a simulation; `newer` ones have arrived
    since the probe."""
    known_s = starts_s if probed_s is None else [*starts_s, probed_s]
    if len(known_s) > 1:
        pace_s = max(pace_s, (known_s[-1] - known_s[0]) / (len(known_s) - 1))
    next_s = max(new_s, pace_s * (waiting + 1)) if probed_s is None else probed_s + pace_s * newer
    return UserForecastSnapshot(waiting, next_s, pace_s)


def _fresh(now: float, changes: int, kept: PolicySimulation) -> bool:
    """It is recent, and nothing has changed; a long one is repeated less often, whatever has changed."""
    recent = now - kept.made_at <= _FRESH_S * max(1.0, kept.dispatches / _LONG)
    return recent and (changes == 0 or kept.dispatches >= _LONG)
