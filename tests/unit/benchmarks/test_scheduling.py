"""The pieces of the scheduling report, on runs small enough to check by hand."""

import re
from dataclasses import replace
from pathlib import Path
from random import Random
from xml.etree import ElementTree as ET

import pytest

from beacon_router.scheduling import BackendSpec, Eta, ModelSpec, Policy, RegionSpec, Scheduler, Topology
from benchmarks.harness.statistics import Round
from benchmarks.scheduling.baselines import FewestLoads, Fifo, LeastAttained, PerModelFifo, StrictPriority
from benchmarks.scheduling.cost import KINDS, Benches, Costs, DecisionBench, bytes_per_waiting
from benchmarks.scheduling.figures import (
    dispatches_past_bound,
    eta_accuracy,
    fifo_violations,
    figures,
    jain,
    offered_load,
)
from benchmarks.scheduling.flood import FloodFigures, measure_flood
from benchmarks.scheduling.measurements import BEACON, measure
from benchmarks.scheduling.report import write_report
from benchmarks.scheduling.scenarios import Scenario, all_scenarios, topology_for
from benchmarks.scheduling.seeds import measure_seeds
from benchmarks.scheduling.simulator import PolicyUnderTest, RequestRecord, Simulator
from benchmarks.scheduling.traces import read_trace
from benchmarks.scheduling.workload import (
    TIERS,
    Arrival,
    WorkloadGenerator,
    model_catalogue,
    with_sizes,
    without_sizes,
)

MODELS = (ModelSpec("a", expected_load_s=2.0), ModelSpec("b", expected_load_s=2.0))
ONE_GPU = Topology((RegionSpec("US"),), (BackendSpec("gpu", "US", frozenset("ab")),), MODELS)


def _arrival(at: float, model: str = "a", tier: str = "free", run_s: float = 4.0) -> Arrival:
    return Arrival(at, f"tenant of {tier}", model, tier, "US", run_s)


def _order(policy: PolicyUnderTest, arrivals: list[Arrival]) -> list[str]:
    records = Simulator(ONE_GPU, policy).run(arrivals)
    return [f"{one.arrival.model} {one.arrival.tier}" for one in records]


def test_every_policy_serves_in_its_own_order() -> None:
    arrivals = [_arrival(0.0), _arrival(0.1, "b"), _arrival(0.2), _arrival(0.3, "b", "admin")]

    assert _order(Fifo(ONE_GPU), arrivals) == ["a free", "b free", "a free", "b admin"]
    assert _order(StrictPriority(ONE_GPU), arrivals) == ["a free", "b admin", "b free", "a free"]
    assert _order(PerModelFifo(ONE_GPU), arrivals) == ["a free", "b free", "a free", "b admin"]
    assert _order(LeastAttained(ONE_GPU), arrivals) == ["a free", "b free", "b admin", "a free"]
    assert _order(Scheduler(ONE_GPU), arrivals) == ["a free", "b admin", "b free", "a free"]
    assert _order(FewestLoads(ONE_GPU), arrivals) == ["a free", "a free", "b free", "b admin"]


def test_figures_of_a_small_run() -> None:
    arrivals = [_arrival(0.0), _arrival(1.0), _arrival(2.0, "b", "admin")]
    found = figures(Simulator(ONE_GPU, Fifo(ONE_GPU)).run(arrivals), gpus=1)

    assert (found.loads, found.lost_s) == (2, 4.0)
    assert found.busy == 8.0  # two loads of 2 s and three runs of 4 s, of arrivals in 2 s
    assert found.worst == {"free": 5.0, "admin": 8.0}
    assert found.top_p95 == 8.0
    assert found.start_s == pytest.approx((2.0 + 5.0 + 10.0) / 3)


def test_jains_index_is_one_for_equals_and_falls_to_one_over_n() -> None:
    assert jain([0.5, 0.5, 0.5]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([0.0]) == 1.0


def _record(arrived: float, started: float, tier: str = "free", eta: Eta | None = None) -> RequestRecord:
    return RequestRecord(_arrival(arrived, tier=tier), started_s=started, eta=eta)


def test_estimates_are_compared_with_the_waits() -> None:
    found = eta_accuracy(
        [
            _record(10.0, 20.0, eta=Eta(8.0, 12.0)),
            _record(10.0, 30.0, eta=Eta(10.0, 15.0)),
            _record(10.0, 40.0, eta=Eta(33.0, 60.0)),
            _record(10.0, 10.0),
        ]
    )

    assert found is not None
    assert found.count == 3
    assert found.of_each_wait == pytest.approx(0.2)
    assert found.of_the_mean_wait == pytest.approx(3.0 / 20.0)
    assert found.under_p90 == pytest.approx(2 / 3)
    assert eta_accuracy([_record(10.0, 10.0)]) is None


def test_a_start_before_an_earlier_request_is_a_fifo_violation() -> None:
    assert fifo_violations([_record(0.0, 1.0), _record(1.0, 2.0)]) == 0
    assert fifo_violations([_record(1.0, 1.0), _record(0.0, 2.0), _record(0.5, 3.0)]) == 2


def test_dispatches_are_counted_while_a_tier_is_past_its_bound() -> None:
    admins = [_record(0.0, at, "admin") for at in (119.0, 120.0, 121.0)]

    found = dispatches_past_bound([*admins, _record(0.0, 122.0)], Policy())

    assert found["free"] == 2
    assert found["admin"] == 0


def test_a_trace_is_read_and_missing_columns_are_drawn_the_same(tmp_path: Path) -> None:
    full, tokens = tmp_path / "full.csv", tmp_path / "tokens.csv"
    full.write_text(
        "arrival_s,tenant,model,tier,region,run_s,size\n2,t,m,premium,EU,3.5,80\n1,t,m,free,EU,1,\n"
    )
    tokens.write_text("arrival_s,context_tokens,generated_tokens\n0.0,400,100\n")

    def generator() -> WorkloadGenerator:
        return WorkloadGenerator(model_catalogue(3, seed=1), seed=1)

    first, second = read_trace(full, generator())
    assert second == Arrival(2.0, "t", "m", "premium", "EU", 3.5, size=80.0)
    assert first.size is None
    (drawn,) = read_trace(tokens, generator())
    assert drawn.run_s == pytest.approx(3.1)
    assert drawn == read_trace(tokens, generator())[0]


def test_a_trace_with_an_unknown_tier_or_without_rows_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    generator = WorkloadGenerator(MODELS, seed=1)
    trace.write_text("arrival_s,tier\n1,gold\n")
    with pytest.raises(ValueError, match="gold"):
        read_trace(trace, generator)
    trace.write_text("arrival_s,tier\n")
    with pytest.raises(ValueError, match=r"trace\.csv"):
        read_trace(trace, generator)


def test_arrivals_are_stretched_until_the_gpus_have_the_load() -> None:
    requested = [_arrival(at * 0.5, "ab"[at % 2], TIERS[at % 5], run_s=1.0) for at in range(200)]
    topology = topology_for(requested, MODELS)

    scenario = Scenario("small", topology, requested).at_load(0.9, Scheduler)

    records = Simulator(topology, Scheduler(topology)).run(scenario.arrivals)
    assert offered_load(records, len(topology.backends)) == pytest.approx(0.9, abs=0.1)


def test_sizes_are_near_the_run_time_unless_the_trace_has_its_own() -> None:
    arrivals = [replace(_arrival(0.0), size=7.0), *(_arrival(float(at), run_s=3.0) for at in range(400))]

    sizes = [arrival.size or 0.0 for arrival in with_sizes(arrivals, seed=1)]

    assert sizes[0] == 7.0
    assert sizes == [arrival.size for arrival in with_sizes(arrivals, seed=1)]
    assert sum(abs(size / 3.0 - 1.0) < 0.2 for size in sizes[1:]) == pytest.approx(0.68 * 400, rel=0.15)
    assert without_sizes(with_sizes(arrivals, seed=1))[1:] == arrivals[1:]
    assert {arrival.size for arrival in without_sizes(arrivals)} == {None}


def test_estimates_are_better_with_sizes() -> None:
    random = Random(1)
    arrivals = [_arrival(3.0 * at, run_s=random.choice([0.5, 1.0, 6.0])) for at in range(800)]

    def error(of: list[Arrival]) -> float:
        found = eta_accuracy(Simulator(ONE_GPU, Scheduler(ONE_GPU), estimate=True).run(of))
        assert found is not None
        return found.of_the_mean_wait

    assert error(with_sizes(arrivals, seed=1)) < 0.7 * error(without_sizes(arrivals))


def test_a_flood_delays_the_other_users_of_a_tier_only_a_little() -> None:
    fair, fifo, ideal = measure_flood(seed=1).values()

    assert fair.dispatches_before_small <= 3
    assert fair.small_wait_s < 2.0 * ideal.small_wait_s
    assert fair.jain > 0.9 > fifo.jain
    assert fair.loads < 1.3 * fifo.loads


def test_the_whole_report_is_written(tmp_path: Path) -> None:
    scenarios = list(all_scenarios(None, seed=1, requests=80))
    costs = Costs({"calm": list[Round]([{"100": 20.0, "1000": 22.0}])}, bytes_each=400.0)
    flood = {name: FloodFigures(0.9, 1, 2.0 * wait_s, 7) for name, wait_s in ((BEACON, 6.0), ("ideal", 4.0))}

    seeds = measure_seeds(None, (1, 2), requests=80)

    page, chart = write_report(
        measure(scenarios, [0.9], 1), flood, costs, seeds=seeds, measured="Measured here.", folder=tmp_path
    )

    text = page.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith(f"| Poisson, 90%, {BEACON} |")]
    assert [line for line in text.splitlines() if line.startswith("| Poisson, FIFO at 90% |")]
    assert "| 1,000 waiting, calm | 22.0 (22.0 to 22.0) | 1.10 (1.10 to 1.10)" in text
    assert len(re.findall(r"^\| bursts, 110% \| [\d.]+ \([\d.]+ to [\d.]+\) \|", text, re.MULTILINE)) == 1
    assert f"| {BEACON} | 0.900 | 1 | 12.0 | 1.50 | 7 |" in text
    svg = "{http://www.w3.org/2000/svg}"
    circles = list(ET.fromstring(chart.read_text(encoding="utf-8")).iter(f"{svg}circle"))
    assert len(circles) > len(TIERS) * len(scenarios)


def test_models_that_only_a_trace_has_are_served() -> None:
    arrivals = [_arrival(float(at), "new model") for at in range(3)]

    found, _ = measure([Scenario("one", topology_for(arrivals, MODELS), arrivals)], [0.9], 1)

    assert found.policies[BEACON].loads == 1  # the others wait for the warm backend


def test_a_bench_keeps_the_number_of_waiting_requests() -> None:
    bench = DecisionBench(waiting=300, step_s=1.0, seed=1)

    assert bench.cost(decisions=100) > 0
    assert bench.scheduler.waiting() == 300


def test_a_round_measures_every_kind_and_number_of_waiting_requests() -> None:
    found = Benches(seed=1, sizes=(100, 200)).round(number=1, decisions=50)

    assert {kind: sorted(costs) for kind, costs in found.items()} == {kind: ["100", "200"] for kind in KINDS}
    assert all(cost > 0 for costs in found.values() for cost in costs.values())


def test_a_waiting_request_takes_less_than_a_kilobyte() -> None:
    assert bytes_per_waiting(20_000, seed=1) < 1_024
