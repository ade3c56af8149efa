"""The demand for GPUs as metrics."""

from math import isnan
from pathlib import Path

from prometheus_client import CollectorRegistry

from beacon_config import LiveConfig, load_config
from beacon_contracts.inference import EtaView
from beacon_contracts.router_status import ModelWork, QueueStatus, RegionStatus
from beacon_runner.domain.queue.demand import GpuTarget
from beacon_runner.maintenance.metrics_collector import DemandCollector
from beacon_runner.metrics import LoopMetrics
from beacon_runner.ports.router import RouterStatus

CONFIG = load_config(Path(__file__).parents[3] / "config" / "beacon.toml", {})
WORK = ModelWork(waiting=1, running=1, ahead_s=70.0, run_s=50.0, load_s=1.0, slots=1)


class Demand:
    """The store and the routers."""

    def __init__(self) -> None:
        self.found = {GpuTarget("flux", "US"): 2, GpuTarget("gone", "US"): 1}
        self.eta = {"flux": EtaView(p50_s=5.0, p90_s=9.0)}

    async def unsent(self) -> dict[GpuTarget, int]:
        return self.found

    async def status(self) -> list[RouterStatus]:
        region = RegionStatus(
            region="US",
            concurrency=1,
            main=1,
            front=0,
            retry=0,
            completed=0,
            failed=0,
            cancelled=0,
            slots=1,
            busy=1,
            healthy=True,
            work={"flux": WORK},
            estimated_wait=self.eta,
        )
        queues = QueueStatus(
            regions={"US": region}, global_retry=0, backing_off=0, waiting=1, running=1, held_bytes=0
        )
        return [RouterStatus("http://router", 0, queues), RouterStatus("http://dead", 0, None, "refused")]


async def test_metrics_have_the_values_of_the_route() -> None:
    registry, demand = CollectorRegistry(), Demand()
    collector = DemandCollector(demand, demand, LiveConfig(CONFIG), LoopMetrics(registry))  # type: ignore[arg-type]

    def value(name: str, model: str = "flux", **labels: str) -> float | None:
        labels |= {"model": model, "region": "US"}
        return registry.get_sample_value(f"beacon_runner_demand_{name}", labels)

    await collector.run_once()
    assert (value("waiting"), value("gpu_seconds"), value("slots_needed")) == (3.0, 170.0, 3.0)
    assert (value("wait_seconds", quantile="0.5"), value("wait_seconds", quantile="0.9")) == (105.0, 109.0)
    assert value("waiting", "gone") == 1.0
    demand.found, demand.eta = {}, {}
    await collector.run_once()
    assert value("waiting", "gone") is None, "nobody asks for it any more"
    assert (value("waiting"), value("gpu_seconds")) == (1.0, 70.0)
    wait_s = value("wait_seconds", quantile="0.5")
    assert wait_s is not None
    assert isnan(wait_s)
