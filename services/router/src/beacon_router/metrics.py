"""The router's figures for Prometheus: counters as things happen, gauges read when asked."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from beacon_router.core import Health, Snapshot
from beacon_router.dispatch.inference import Inference, Run
from beacon_router.dispatch.settling import RunEnd

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_HEALTH = {Health.CLOSED: 0, Health.HALF_OPEN: 1, Health.OPEN: 2}


class RouterMetrics:
    """The observer of the engine. Children are kept: `labels()` takes a lock and makes strings."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._started = Counter(
            "beacon_router_starts",
            "Runs started, by the rule that chose them",
            ("region", "backend", "reason", "moved"),
            registry=registry,
        )
        self._runs = Counter(
            "beacon_router_runs",
            "Runs ended",
            ("region", "backend", "model", "outcome", "code"),
            registry=registry,
        )
        self._run_seconds = Histogram(
            "beacon_router_run_seconds",
            "From a run's start to its end",
            ("backend", "model"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._wait_seconds = Histogram(
            "beacon_router_wait_seconds",
            "From joining a queue to the start of a run",
            ("region", "tier"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._ended = Counter(
            "beacon_router_inferences", "Inferences that are over", ("region", "state"), registry=registry
        )
        self._counters: dict[tuple[object, ...], Counter] = {}
        self._histograms: dict[tuple[object, ...], Histogram] = {}

    def started(self, run: Run) -> None:
        start = run.start
        moved = "yes" if start.moved else "no"
        self._count(self._started, start.region, start.backend, start.reason.value, moved)
        waited_s = run.started_at - run.inference.waiting_since
        self._observe(self._wait_seconds, waited_s, start.region, run.inference.ask.tier.value)

    def run_ended(self, run: Run, end: RunEnd) -> None:
        start, model = run.start, run.inference.ask.model
        code = "" if end.error is None else end.error.code
        self._count(self._runs, start.region, start.backend, model, end.outcome.value, code)
        self._observe(self._run_seconds, end.timing.load_s + end.timing.run_s, start.backend, model)

    def ended(self, inference: Inference) -> None:
        self._count(self._ended, inference.ask.region, inference.state.value)

    def _count(self, counter: Counter, *labels: str) -> None:
        key = (counter, *labels)
        child = self._counters.get(key)
        if child is None:
            child = self._counters[key] = counter.labels(*labels)
        child.inc()

    def _observe(self, histogram: Histogram, seconds: float, *labels: str) -> None:
        key = (histogram, *labels)
        child = self._histograms.get(key)
        if child is None:
            child = self._histograms[key] = histogram.labels(*labels)
        child.observe(max(0.0, seconds))


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
