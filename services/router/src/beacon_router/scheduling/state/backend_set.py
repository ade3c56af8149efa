"""Backends of one region with the same models and capabilities, and the queues that they take from."""

from collections.abc import Collection, Sequence
from math import inf
from typing import TYPE_CHECKING

from beacon_router.scheduling.decisions import Health
from beacon_router.scheduling.durations import Durations
from beacon_router.scheduling.fair_share import FairShares
from beacon_router.scheduling.state.backend_state import BackendState, RegionState
from beacon_router.scheduling.state.request_queue import QueueKind, RequestQueue
from beacon_router.scheduling.state.topology import Policy
from beacon_router.scheduling.stride import StrideScheduler

if TYPE_CHECKING:
    from beacon_router.scheduling.state.domains import CompetitionDomain


class BackendSet:
    """The view of the policy: `policy.choose` reads it, in the live scheduler and in a forecast."""

    __slots__ = (
        "backends",
        "batch",
        "by_model",
        "bypass",
        "bypass_run",
        "capabilities",
        "changes",
        "domain",
        "durations",
        "free",
        "models",
        "moved",
        "policy",
        "queues",
        "region",
        "served_at",
        "shares",
        "stride",
        "tiers",
        "undecided",
        "urgent",
        "wake_at",
        "warm_waits",
    )

    def __init__(
        self,
        region: RegionState,
        models: frozenset[str],
        policy: Policy,
        shares: Sequence[FairShares],
        durations: Durations,
        *,
        capabilities: frozenset[str],
    ) -> None:
        self.region = region
        self.models = models
        self.capabilities = capabilities
        self.policy = policy
        self.shares = shares
        """Of the region, by tier."""
        self.durations = durations
        self.domain: CompetitionDomain
        """Set when the domains are made."""
        self.backends: list[BackendState] = []
        self.free: dict[BackendState, None] = {}
        """Those with a free slot, the one that has been idle longest first."""
        self.batch = 0
        """Starts before others because of a loaded model, since the last start in order."""
        self.bypass_run = 0
        """Starts in a row from the retry queues and the paid front."""
        self.stride = StrideScheduler([tier.weight for tier in policy.tiers])
        median = sorted(tier.weight for tier in policy.tiers)[len(policy.tiers) // 2]
        self.urgent = [tier.weight > median for tier in policy.tiers]
        """Per tier, whether it has more than the median weight."""
        self.changes = 0
        """Arrivals, departures and freed slots: an old forecast is recognised by it."""
        self.served_at = 0
        """The number of its last dispatch."""
        self.wake_at = inf
        """When to choose again although nothing has changed: a warm wait or a retry's wait ends."""
        self.bypass: dict[QueueKind, dict[RequestQueue, None]] = {
            kind: {} for kind in QueueKind if kind is not QueueKind.MAIN
        }
        """Queues with waiting requests, by kind,"""
        self.tiers: tuple[dict[RequestQueue, None], ...] = tuple({} for _ in policy.tiers)
        """by tier those of this region,"""
        self.moved: tuple[dict[RequestQueue, None], ...] = tuple({} for _ in policy.tiers)
        """and those of regions without a healthy backend,"""
        self.by_model: dict[str, dict[RequestQueue, None]] = {model: {} for model in models}
        """and by model, the main queues."""
        self.queues: dict[RequestQueue, None] = {}
        """All of them."""
        self.warm_waits: dict[str, float] = {}
        """By model, until when its requests wait for a warm backend while slots of this set are idle."""
        self.undecided: dict[str, None] = {}
        """The models of the other main queues: whether their requests wait is to be decided."""

    def serves(self, model: str, needs: frozenset[str]) -> bool:
        return model in self.models and needs <= self.capabilities

    def activate(self, queue: RequestQueue) -> None:
        """Requests wait in a queue that this set may take from."""
        self.queues[queue] = None
        if queue.kind is not QueueKind.MAIN:
            self.bypass[queue.kind][queue] = None
            return
        self.by_model[queue.model][queue] = None
        self.warm_waits.pop(queue.model, None)
        self.undecided[queue.model] = None
        if queue.region == self.region.name:
            self.tiers[queue.rank][queue] = None
        else:
            self.moved[queue.rank][queue] = None

    def deactivate(self, queue: RequestQueue) -> None:
        """The queue is empty, or this set may no longer take from it."""
        self.queues.pop(queue, None)
        if queue.kind is not QueueKind.MAIN:
            self.bypass[queue.kind].pop(queue, None)
            return
        self.by_model[queue.model].pop(queue, None)
        self.tiers[queue.rank].pop(queue, None)
        self.moved[queue.rank].pop(queue, None)
        self.warm_waits.pop(queue.model, None)
        if self.by_model[queue.model]:
            self.undecided[queue.model] = None
        else:
            self.undecided.pop(queue.model, None)

    def recheck_warm_wait(self, model: str) -> None:
        """Requests, warm backends or durations of a model changed, the requests of which wait."""
        del self.warm_waits[model]
        self.undecided[model] = None

    def end_warm_waits(self, now: float) -> None:
        """Those whose time is over are decided again."""
        for model in [model for model, until in self.warm_waits.items() if until <= now]:
            self.recheck_warm_wait(model)

    @property
    def active(self) -> bool:
        """A slot is free, or a run in progress is to be continued."""
        return bool(self.free or self.bypass[QueueKind.ATTACH])

    def usable(self) -> list[BackendState]:
        """Backends that could start a run now, the one that has been idle longest first; those with a
        half-open breaker only if no other is free."""
        free = [backend for backend in self.free if backend.short_of is None]
        closed = [backend for backend in free if backend.health is Health.CLOSED]
        return closed or free

    def open(self, queues: Collection[RequestQueue]) -> Collection[RequestQueue]:
        """Those of these queues whose model may start a run."""
        region = self.region
        if not region.model_limits:
            return queues
        return [queue for queue in queues if not region.blocked(queue.model)]
