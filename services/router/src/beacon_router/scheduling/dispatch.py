"""Carries choices out: which region is served next, what starts, and what a finished run releases."""

from collections.abc import Iterable
from math import inf

from beacon_router.scheduling import transitions
from beacon_router.scheduling.decisions import Decision, Expired, RequestId, Start
from beacon_router.scheduling.forecast.calibration import Calibration
from beacon_router.scheduling.policy import Choice
from beacon_router.scheduling.state.backend_state import RegionState, RunningRequest
from beacon_router.scheduling.state.cluster_state import ClusterState
from beacon_router.scheduling.state.limits import Limit
from beacon_router.scheduling.state.queues import RequestQueues
from beacon_router.scheduling.state.request_queue import QueuedRequest, RequestQueue


class Dispatcher:
    __slots__ = ("_calibration", "_dirty", "_dispatches", "_freed", "_queues", "_sets", "_state", "runs")

    def __init__(self, state: ClusterState, queues: RequestQueues, calibration: Calibration) -> None:
        self.runs: dict[RequestId, RunningRequest] = {}
        self._state = state
        self._queues = queues
        self._sets = [each for region in state.regions.values() for each in region.sets]
        self._calibration = calibration
        self._dispatches = 0
        self._dirty: dict[RegionState, None] = {}
        """Regions in which something may be able to start."""
        self._freed: dict[Limit, None] = {}
        """Limits of several regions of which a token was released since the last `next`."""

    def on(self, state: ClusterState, queues: RequestQueues, calibration: Calibration) -> "Dispatcher":
        """With the same runs on another state, in which anything may be able to start."""
        dispatcher = Dispatcher(state, queues, calibration)
        dispatcher.runs, dispatcher._dispatches = self.runs, self._dispatches
        dispatcher.mark_regions_dirty(state.regions.values())
        return dispatcher

    def mark_dirty(self, queue: RequestQueue) -> None:
        """The first request of the queue may have changed."""
        for backend_set in queue.sets:
            self._dirty[backend_set.region] = None

    def mark_regions_dirty(self, regions: Iterable[RegionState]) -> None:
        self._dirty.update(dict.fromkeys(regions))

    def remove(self, queued: QueuedRequest) -> None:
        """It no longer waits, and has not started."""
        self.mark_dirty(self._queues.leave(queued))

    def next(self, now: float) -> list[Decision]:
        decisions: list[Decision] = []
        waiting = self._queues.waiting
        if waiting:
            for queued in self._queues.expired(now):
                self.remove(queued)
                decisions.append(Expired(queued.request.id))
            for each in self._sets:
                if each.wake_at <= now:
                    self._dirty[each.region] = None
        regions = self._dirty_regions() if waiting else []
        while regions and waiting:
            region = regions.pop(0)
            choice = transitions.choose_among(region.sets, now)
            if choice is not None:
                decisions.append(self._start(now, choice))
                regions.append(region)
        self._dirty.clear()
        self._freed.clear()
        return decisions

    def next_wakeup(self) -> float:
        """When a wait that the policy decided on ends; infinity: none."""
        return min((each.wake_at for each in self._sets), default=inf)

    def end(self, now: float, run: RunningRequest) -> None:
        """A run ended: its slot and tokens are free. Waits for a warm backend depend on how long it took."""
        del self.runs[run.request.id]
        transitions.end(now, run)
        run.backend.backend_set.changes += 1
        self._dirty[run.backend.region] = None
        for limit in run.limits:
            self.token_freed(limit)
        model = run.request.model
        for each in self._sets:
            if model in each.warm_waits:
                each.recheck_warm_wait(model)
                self._dirty[each.region] = None

    def token_freed(self, limit: Limit) -> None:
        if limit.used < limit.held:
            if len(limit.regions) > 1:
                self._freed[limit] = None
            self._dirty.update(limit.regions)

    def _dirty_regions(self) -> list[RegionState]:
        """In the order in which they are served: a token is for the region that has had none for longest."""
        regions = [region for region in self._state.regions.values() if region in self._dirty]
        if self._freed:
            regions.sort(key=lambda region: [limit.served.get(region.name, 0) for limit in self._freed])
        return regions

    def _start(self, now: float, choice: Choice) -> Start:
        self._dispatches += 1
        queue, queued = choice.queue, choice.queued
        request = queued.request
        shares = self._state.shares[queue.region][request.rank]
        run = transitions.start(now, choice, self._dispatches, shares)
        self._queues.started(queued)
        self.runs[request.id] = run
        if queued.predicted is not None:
            self._calibration.learn(queue.kind, request.rank, queued.predicted, now)
        region = run.backend.region.name
        return Start(
            request.id, run.backend.name, region, run.needs_load, choice.reason, region != request.region
        )
