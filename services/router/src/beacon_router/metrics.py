"""Prometheus metrics of the router: events of runs, and gauges of the state at each scrape."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from beacon_config import Derived, LiveConfig
from beacon_contracts.router_status import STARTING
from beacon_router.scheduling import Health, Snapshot
from beacon_router.service.inference import Inference, Run
from beacon_router.service.outcome import RunOutcome

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_HEALTH = {Health.CLOSED: 0, Health.HALF_OPEN: 1, Health.OPEN: 2}
_STARTING = 3


class RouterMetrics:
    """Label values are names of the configuration, so the lookups are cached without a limit."""

    def __init__(self, registry: CollectorRegistry, live: LiveConfig) -> None:
        self._tiers = Derived(live, lambda config: tuple(config.tiers))
        starts = Counter(
            "beacon_router_starts",
            "Runs started, by the rule that chose them",
            ("region", "backend", "reason", "moved"),
            registry=registry,
        )
        runs = Counter(
            "beacon_router_runs",
            "Runs ended",
            ("region", "backend", "model", "outcome", "code"),
            registry=registry,
        )
        inferences = Counter(
            "beacon_router_inferences", "Inferences ended", ("region", "state"), registry=registry
        )
        wait_s = Histogram(
            "beacon_router_wait_seconds",
            "Time in the queue before a run",
            ("region", "tier"),
            buckets=_BUCKETS,
            registry=registry,
        )
        run_s = Histogram(
            "beacon_router_run_seconds",
            "Duration of a run, loading included",
            ("backend", "model"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._starts = cache(starts.labels)
        self._runs = cache(runs.labels)
        self._inferences = cache(inferences.labels)
        self._wait_s = cache(wait_s.labels)
        self._run_s = cache(run_s.labels)

    def run_started(self, run: Run) -> None:
        start = run.start
        self._starts(start.region, start.backend, start.reason, "yes" if start.moved else "no").inc()
        waited_s = max(0.0, run.started_at - run.inference.waiting_since)
        self._wait_s(start.region, self._tiers()[run.inference.spec.rank]).observe(waited_s)

    def run_ended(self, run: Run, outcome: RunOutcome) -> None:
        start, model, attempt = run.start, run.inference.spec.model, outcome.attempt
        code = "" if outcome.error is None else outcome.error.code
        self._runs(start.region, start.backend, model, outcome.outcome, code).inc()
        self._run_s(start.backend, model).observe(attempt.load_s + attempt.run_s)

    def inference_ended(self, inference: Inference) -> None:
        self._inferences(inference.spec.region, inference.state).inc()


class StateCollector(Collector):
    """Queue depths, slots, breakers and limits at the moment of the scrape."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        gauges: Callable[[], dict[str, float]],
        causes: Callable[[], dict[str, str]],
    ) -> None:
        self._snapshot = snapshot
        self._gauges = gauges
        self._causes = causes

    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot()
        yield from _region_gauges(snapshot)
        unavailable = self._causes()
        yield from _backend_gauges(snapshot, unavailable)
        yield from _limit_gauges(snapshot)
        causes = GaugeMetricFamily(
            "beacon_router_backend_unavailable", "1 with the cause", labels=("backend", "cause")
        )
        for backend, cause in unavailable.items():
            causes.add_metric((backend, cause), 1)
        yield causes
        for name, value in self._gauges().items():
            yield GaugeMetricFamily(f"beacon_router_{name}", name.replace("_", " "), value)

    def describe(self) -> Iterator[Metric]:
        """Empty, so that registering does not collect."""
        return iter(())


def _region_gauges(snapshot: Snapshot) -> Iterator[Metric]:
    waiting = GaugeMetricFamily("beacon_router_queue_depth", "Inferences queued", labels=("region", "queue"))
    running = GaugeMetricFamily("beacon_router_running", "Inferences running", labels=("region",))
    waiting.add_metric(("", "global_retry"), snapshot.global_retry)
    for region in snapshot.regions:
        waiting.add_metric((region.name, "main"), region.main)
        waiting.add_metric((region.name, "retry"), region.retry)
        running.add_metric((region.name,), len(region.running))
    yield waiting
    yield running


def _backend_gauges(snapshot: Snapshot, causes: Mapping[str, str]) -> Iterator[Metric]:
    slots = GaugeMetricFamily("beacon_router_slots", "Slots of a backend", labels=("backend",))
    busy = GaugeMetricFamily("beacon_router_slots_busy", "Slots in use", labels=("backend",))
    breaker = GaugeMetricFamily(
        "beacon_router_breaker", "0 closed, 1 half open, 2 open, 3 starting", labels=("backend",)
    )
    for region in snapshot.regions:
        for backend in region.backends:
            slots.add_metric((backend.name,), backend.slots)
            busy.add_metric((backend.name,), backend.busy)
            starting = causes.get(backend.name) == STARTING
            breaker.add_metric((backend.name,), _STARTING if starting else _HEALTH[backend.health])
    yield from (slots, busy, breaker)


def _limit_gauges(snapshot: Snapshot) -> Iterator[Metric]:
    for what in ("cap", "held", "used"):
        gauge = GaugeMetricFamily(f"beacon_router_limit_{what}", f"Shared limits: {what}", labels=("limit",))
        for limit in snapshot.limits:
            gauge.add_metric((limit.name,), getattr(limit, what))
        yield gauge
