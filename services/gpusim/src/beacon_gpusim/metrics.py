"""The GPU's figures for Prometheus, read when asked so that calls pay nothing for them."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from beacon_gpusim.core.calls import Outcome
from beacon_gpusim.core.gpu import Gpu


class GpuCollector(Collector):
    def __init__(self, gpu: Callable[[], Gpu]) -> None:
        self._gpu = gpu

    def collect(self) -> Iterator[Metric]:
        gpu = self._gpu()
        yield GaugeMetricFamily("gpusim_slots", "Calls allowed at the same time", value=gpu.slots)
        yield GaugeMetricFamily("gpusim_slots_held", "Calls that hold a slot", value=len(gpu.held))
        yield GaugeMetricFamily(
            "gpusim_max_concurrent", "Most calls seen at the same time", value=gpu.stats.max_concurrent
        )
        yield GaugeMetricFamily("gpusim_models_loaded", "Models in memory", value=len(gpu.memory.ready))
        calls = CounterMetricFamily("gpusim_calls", "Calls that are over", labels=["outcome"])
        for outcome in Outcome:
            calls.add_metric([outcome.value], gpu.stats.outcomes[outcome])
        yield calls
        yield CounterMetricFamily("gpusim_model_loads", "Model loads", value=gpu.stats.loads.total())
        yield CounterMetricFamily("gpusim_model_evictions", "Models evicted", value=gpu.memory.evictions)
