"""The router's figures for Prometheus: plain counting as things happen, families made when they are read."""

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from beacon_router.scheduling import Health, Snapshot
from beacon_router.service.inference import Inference, Run
from beacon_router.service.outcome import RunEnd

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_HEALTH = {Health.CLOSED: 0, Health.HALF_OPEN: 1, Health.OPEN: 2}

Labels = tuple[str, ...]


class _Durations:
    """A histogram: how many fell under each bound, and their sum."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_BOUNDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        bounds = [*(str(bound) for bound in _BOUNDS), "+Inf"]
        return list(zip(bounds, accumulate(self.counts), strict=True))


class RouterMetrics(Collector):
    """An observer of the engine. The client library's counters would cost several percent of a run's CPU."""

    def __init__(self) -> None:
        self._started: Tally[Labels] = Tally()
        self._runs: Tally[Labels] = Tally()
        self._ended: Tally[Labels] = Tally()
        self._waits: dict[Labels, _Durations] = {}
        self._run_times: dict[Labels, _Durations] = {}

    def started(self, run: Run) -> None:
        start = run.start
        self._started[start.region, start.backend, start.reason, "yes" if start.moved else "no"] += 1
        waited_s = run.started_at - run.inference.waiting_since
        _add(self._waits, (start.region, run.inference.ask.tier), waited_s)

    def run_ended(self, run: Run, end: RunEnd) -> None:
        start, model = run.start, run.inference.ask.model
        code = "" if end.error is None else end.error.code
        self._runs[start.region, start.backend, model, end.outcome, code] += 1
        _add(self._run_times, (start.backend, model), end.load_s + end.run_s)

    def ended(self, inference: Inference) -> None:
        self._ended[inference.ask.region, inference.state] += 1

    def collect(self) -> Iterator[Metric]:
        yield _counter(
            "beacon_router_starts",
            "Runs started, by the rule that chose them",
            ("region", "backend", "reason", "moved"),
            self._started,
        )
        yield _counter(
            "beacon_router_runs", "Runs ended", ("region", "backend", "model", "outcome", "code"), self._runs
        )
        yield _counter(
            "beacon_router_inferences", "Inferences that are over", ("region", "state"), self._ended
        )
        yield _histogram(
            "beacon_router_wait_seconds",
            "From joining a queue to the start of a run",
            ("region", "tier"),
            self._waits,
        )
        yield _histogram(
            "beacon_router_run_seconds",
            "From a run's start to its end",
            ("backend", "model"),
            self._run_times,
        )


class StateCollector(Collector):
    """Depths, slots, breakers and caps as they are at the moment of the scrape."""

    def __init__(self, snapshot: Callable[[], Snapshot], figures: Callable[[], dict[str, float]]) -> None:
        self._snapshot = snapshot
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot()
        yield from _region_gauges(snapshot)
        yield from _backend_gauges(snapshot)
        yield from _limit_gauges(snapshot)
        for name, value in self._figures().items():
            yield GaugeMetricFamily(f"beacon_router_{name}", name.replace("_", " "), value)

    def describe(self) -> Iterator[Metric]:
        """Nothing in advance: the names do not depend on the state."""
        return iter(())


def _add(durations: dict[Labels, _Durations], labels: Labels, seconds: float) -> None:
    known = durations.get(labels)
    if known is None:
        known = durations[labels] = _Durations()
    known.add(max(0.0, seconds))


def _counter(name: str, what: str, labels: Labels, tally: Tally[Labels]) -> Metric:
    family = CounterMetricFamily(name, what, labels=labels)
    for values, count in tally.items():
        family.add_metric(values, count)
    return family


def _histogram(name: str, what: str, labels: Labels, durations: dict[Labels, _Durations]) -> Metric:
    family = HistogramMetricFamily(name, what, labels=labels)
    for values, known in durations.items():
        family.add_metric(values, known.buckets(), known.total)
    return family


def _region_gauges(snapshot: Snapshot) -> Iterator[Metric]:
    waiting = GaugeMetricFamily(
        "beacon_router_queue_depth", "Inferences that wait", labels=("region", "queue")
    )
    running = GaugeMetricFamily("beacon_router_running", "Inferences that run", labels=("region",))
    waiting.add_metric(("", "global_retry"), snapshot.global_retry)
    for region in snapshot.regions:
        waiting.add_metric((region.name, "main"), region.main)
        waiting.add_metric((region.name, "retry"), region.retry)
        running.add_metric((region.name,), len(region.running))
    yield waiting
    yield running


def _backend_gauges(snapshot: Snapshot) -> Iterator[Metric]:
    slots = GaugeMetricFamily("beacon_router_slots", "Slots of a backend", labels=("backend",))
    busy = GaugeMetricFamily("beacon_router_slots_busy", "Slots in use", labels=("backend",))
    breaker = GaugeMetricFamily("beacon_router_breaker", "0 closed, 1 half open, 2 open", labels=("backend",))
    for region in snapshot.regions:
        for backend in region.backends:
            slots.add_metric((backend.name,), backend.slots)
            busy.add_metric((backend.name,), backend.busy)
            breaker.add_metric((backend.name,), _HEALTH[backend.health])
    yield from (slots, busy, breaker)


def _limit_gauges(snapshot: Snapshot) -> Iterator[Metric]:
    for what in ("cap", "held", "used"):
        gauge = GaugeMetricFamily(f"beacon_router_limit_{what}", f"Shared limits: {what}", labels=("limit",))
        for limit in snapshot.limits:
            gauge.add_metric((limit.name,), getattr(limit, what))
        yield gauge
