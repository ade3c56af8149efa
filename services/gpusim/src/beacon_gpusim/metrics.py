"""Prometheus metrics of the GPU, computed at each scrape."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from beacon_gpusim.core.calls import CallOutcome
from beacon_gpusim.core.gpu import Gpu


class GpuCollector(Collector):
    def __init__(self, gpu: Callable[[], Gpu]) -> None:
        self._gpu = gpu

    def collect(self) -> Iterator[Metric]:
        gpu = self._gpu()
        yield GaugeMetricFamily("gpusim_slots", "Maximum number of concurrent calls", value=gpu.slots)
        yield GaugeMetricFamily("gpusim_slots_held", "Calls that hold a slot", value=len(gpu.held))
        yield GaugeMetricFamily(
            "gpusim_max_concurrent", "Maximum of concurrent calls", value=gpu.stats.max_concurrent
        )
        yield GaugeMetricFamily("gpusim_models_loaded", "Models in memory", value=len(gpu.memory.ready))
        calls = CounterMetricFamily("gpusim_calls", "Calls that have ended", labels=["outcome"])
        for outcome in CallOutcome:
            calls.add_metric([outcome.value], gpu.stats.outcomes[outcome])
        yield calls
        yield CounterMetricFamily("gpusim_model_loads", "Model loads", value=gpu.stats.loads.total())
        yield CounterMetricFamily("gpusim_model_evictions", "Models evicted", value=gpu.memory.evictions)
