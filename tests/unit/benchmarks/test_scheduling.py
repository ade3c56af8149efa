"""The pieces of the scheduling report, on runs small enough to check by hand."""

from dataclasses import replace
from pathlib import Path
from random import Random
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_router.scheduling import BackendSpec, Eta, ModelSpec, RegionSpec, Scheduler, Topology
from benchmarks.harness.statistics import Round
from benchmarks.scheduling.baselines import Fifo, PerModelFifo, StrictPriority
from benchmarks.scheduling.cores import COMPILED, INTERPRETED, Costs
from benchmarks.scheduling.cost import KINDS, Benches, JobRunner, bytes_per_waiting
from benchmarks.scheduling.figures import figures, foretold, jain, offered_load
from benchmarks.scheduling.findings import BEACON, simulate
from benchmarks.scheduling.knowable import NEAR, Knowable, knowable, share_near
from benchmarks.scheduling.report import write_report
from benchmarks.scheduling.scenarios import LOAD, Scenario, all_scenarios, as_busy_as, place
from benchmarks.scheduling.simulator import PolicyUnderTest, Seen, Simulator
from benchmarks.scheduling.traces import read_trace
from benchmarks.scheduling.watched import Watched
from benchmarks.scheduling.workload import TIERS, Arrival, Askers, People, model_catalogue, told, untold

MODELS = (ModelSpec("a", expected_load_s=2.0), ModelSpec("b", expected_load_s=2.0))
ONE_GPU = Topology((RegionSpec("US"),), (BackendSpec("gpu", "US", frozenset("ab")),), MODELS)


def _arrival(at: float, model: str = "a", tier: str = "free", run_s: float = 4.0) -> Arrival:
    return Arrival(at, f"tenant of {tier}", model, tier, "US", run_s)


def _order(policy: PolicyUnderTest, arrivals: list[Arrival]) -> list[str]:
    seen = Simulator(ONE_GPU, policy).run(arrivals)
    return [f"{one.arrival.model} {one.arrival.tier}" for one in sorted(seen, key=lambda one: one.started_s)]


def test_every_policy_serves_in_its_own_order() -> None:
    arrivals = [_arrival(0.0), _arrival(0.1, "b"), _arrival(0.2), _arrival(0.3, "b", "admin")]

    assert _order(Fifo(ONE_GPU), arrivals) == ["a free", "b free", "a free", "b admin"]
    assert _order(StrictPriority(ONE_GPU), arrivals) == ["a free", "b admin", "b free", "a free"]
    assert _order(PerModelFifo(ONE_GPU), arrivals) == ["a free", "b free", "a free", "b admin"]
    assert _order(Watched(ONE_GPU), arrivals) == ["a free", "a free", "b admin", "b free"]


def test_figures_of_a_run_that_fits_on_a_hand() -> None:
    seen = Simulator(ONE_GPU, Fifo(ONE_GPU)).run([_arrival(0.0), _arrival(1.0), _arrival(2.0, "b", "admin")])

    found = figures(seen, gpus=1)

    assert found.makespan_s == 16.0  # two loads of 2 s, three runs of 4 s
    assert found.busy == 1.0
    assert (found.switches, found.lost_s) == (2, 4.0)
    assert found.waits["free"].worst == 5.0
    assert found.waits["admin"].p50 == 8.0
    assert set(found.waits) == {"free", "admin"}


def test_jains_index_is_one_for_equals_and_falls_to_one_over_n() -> None:
    assert jain([0.5, 0.5, 0.5]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([0.0]) == 1.0


def test_what_was_foretold_is_compared_for_those_who_waited() -> None:
    def waited(seconds: float, eta: Eta | None) -> Seen:
        return Seen(_arrival(10.0), started_s=10.0 + seconds, eta=eta)

    found = foretold(
        [
            waited(10.0, Eta(8.0, 12.0)),
            waited(20.0, Eta(10.0, 15.0)),
            waited(30.0, Eta(33.0, 60.0)),
            waited(0.0, None),
        ]
    )

    assert found is not None
    assert found.count == 3
    assert found.of_each_wait == pytest.approx(0.2)
    assert found.of_the_mean_wait == pytest.approx(3.0 / 20.0)
    assert found.covered == pytest.approx(2 / 3)
    assert foretold([waited(0.0, None)]) is None


def test_a_trace_is_read_and_what_it_does_not_say_is_drawn_the_same_each_time(tmp_path: Path) -> None:
    full, tokens = tmp_path / "full.csv", tmp_path / "tokens.csv"
    full.write_text(
        "arrival_s,tenant,model,tier,region,run_s,size\n2,t,m,premium,EU,3.5,80\n1,t,m,free,EU,1,\n"
    )
    tokens.write_text("arrival_s,context_tokens,generated_tokens\n0.0,400,100\n")

    def askers() -> Askers:
        return Askers(People(), model_catalogue(3, seed=1), seed=1)

    first, second = read_trace(full, askers())
    assert second == Arrival(2.0, "t", "m", "premium", "EU", 3.5, size=80.0)
    assert first.size is None
    (drawn,) = read_trace(tokens, askers())
    assert drawn.run_s == pytest.approx(3.1)
    assert drawn == read_trace(tokens, askers())[0]


def test_a_trace_with_an_unknown_tier_or_without_rows_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    askers = Askers(People(), MODELS, seed=1)
    trace.write_text("arrival_s,tier\n1,gold\n")
    with pytest.raises(ValueError, match="gold"):
        read_trace(trace, askers)
    trace.write_text("arrival_s,tier\n")
    with pytest.raises(ValueError, match=r"trace\.csv"):
        read_trace(trace, askers)


def test_arrivals_are_stretched_until_the_gpus_are_as_busy_as_asked_for() -> None:
    asked = [_arrival(at * 0.5, "ab"[at % 2], TIERS[at % 5], run_s=1.0) for at in range(200)]
    topology = place(asked, MODELS)

    arrivals = as_busy_as(LOAD, topology, asked)

    seen = Simulator(topology, Watched(topology)).run(arrivals)
    assert offered_load(seen, len(topology.backends)) == pytest.approx(LOAD, abs=0.1)


def test_callers_say_sizes_near_the_truth_and_keep_what_a_trace_says() -> None:
    arrivals = [replace(_arrival(0.0), size=7.0), *(_arrival(float(at), run_s=3.0) for at in range(400))]

    said = [arrival.size or 0.0 for arrival in told(arrivals, seed=1)]

    assert said[0] == 7.0
    assert said == [arrival.size for arrival in told(arrivals, seed=1)]
    assert sum(abs(size / 3.0 - 1.0) < 0.2 for size in said[1:]) == pytest.approx(0.68 * 400, rel=0.15)
    assert untold(told(arrivals, seed=1))[1:] == arrivals[1:]
    assert {arrival.size for arrival in untold(arrivals)} == {None}


def test_waits_are_foretold_better_when_sizes_are_told() -> None:
    chance = Random(1)
    arrivals = [_arrival(3.0 * at, run_s=chance.choice([0.5, 1.0, 6.0])) for at in range(800)]

    def error(of: list[Arrival]) -> float:
        found = foretold(Simulator(ONE_GPU, Watched(ONE_GPU)).run(of))
        assert found is not None
        return found.of_the_mean_wait

    assert error(told(arrivals, seed=1)) < 0.7 * error(untold(arrivals))


def test_the_whole_report_is_written(tmp_path: Path) -> None:
    scenarios = list(all_scenarios(None, seed=1, seconds=40.0))
    costs = {
        core: Costs({"calm": list[Round]([{"100": cost, "1000": 1.1 * cost}])}, bytes_each=400.0)
        for core, cost in ((INTERPRETED, 20.0), (COMPILED, 10.0))
    }

    page, drawing = write_report(simulate(scenarios, samples=4), costs, "Measured here.", tmp_path)

    text = page.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith(f"| Poisson, {BEACON} |")]
    assert [line for line in text.splitlines() if line.startswith("| Poisson, sizes told |")]
    assert "| compiled, 1,000 waiting, calm | 11.0 (11.0 to 11.0) | 1.10 (1.10 to 1.10)" in text
    assert "| compiled, 1,000 waiting | 11.0 (11.0 to 11.0) | 1.10 (1.10 to 1.10)" in text
    svg = "{http://www.w3.org/2000/svg}"
    circles = list(ET.fromstring(drawing.read_text(encoding="utf-8")).iter(f"{svg}circle"))
    assert len(circles) > len(TIERS) * len(scenarios)


def test_models_that_only_a_trace_knows_are_served() -> None:
    topology = place([_arrival(0.0, "unheard of")], MODELS)

    (found,) = simulate([Scenario("one", topology, [_arrival(0.0, "unheard of")])], samples=1)

    assert found.policies[BEACON].switches == 1


def test_a_bench_keeps_as_many_waiting_as_it_was_given() -> None:
    bench = JobRunner(waiting=300, step_s=1.0, seed=1)

    assert bench.cost(decisions=100) > 0
    assert bench.scheduler.waiting() == 300


def test_a_round_measures_every_kind_with_every_number_of_waiting_requests() -> None:
    found = Benches(seed=1, sizes=(100, 200)).round(number=1, decisions=50)

    assert {kind: sorted(costs) for kind, costs in found.items()} == {kind: ["100", "200"] for kind in KINDS}
    assert all(cost > 0 for costs in found.values() for cost in costs.values())


def test_a_waiting_request_costs_less_than_a_kilobyte() -> None:
    assert bytes_per_waiting(5_000, seed=1) < 1_024


def test_what_is_spread_cannot_be_known_and_what_is_known_can() -> None:
    alike = [_arrival(at * 5.0, "ab"[at % 2], run_s=4.0) for at in range(30)]
    unlike = [replace(arrival, run_s=1.0 + 6.0 * (at % 3 == 0)) for at, arrival in enumerate(alike)]

    certain = knowable(Scenario("runs alike", ONE_GPU, alike), samples=30, plays=8, seed=1)
    spread = knowable(Scenario("runs unlike", ONE_GPU, unlike), samples=30, plays=8, seed=1)

    assert certain["who comes"] == Knowable(error=0.0, near=1.0)
    assert spread["who comes"].near < 1
    assert spread["how both are spread"].near <= spread["run times"].near
    assert knowable(Scenario("idle", ONE_GPU, alike[:1]), samples=30, plays=8, seed=1) == {}


def test_a_copy_that_plays_on_leaves_the_run_that_it_was_copied_from_alone() -> None:
    arrivals = [_arrival(at * 3.0, "ab"[at % 2], run_s=1.0 + at % 7) for at in range(20)]
    undisturbed = Simulator(ONE_GPU, Scheduler(ONE_GPU), foretell=False).run(arrivals)
    watched = Simulator(ONE_GPU, Scheduler(ONE_GPU), foretell=False)
    for arrival in arrivals:
        watched.arrive(arrival)
        twin = next(watched.twins())
        twin.redraw(arrival.arrival_s, lambda model, age_s: age_s + 50.0)
        twin.finish()
    watched.finish()

    assert list(watched.requests.values()) == undisturbed


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=12))
def test_no_estimate_is_near_to_more_waits_than_the_best(waits: list[float]) -> None:
    shares = [
        sum(abs(told - wait_s) <= NEAR * wait_s + 1e-9 for wait_s in waits) / len(waits)
        for told in (wait_s * (1 + NEAR) for wait_s in waits)
    ]

    assert share_near(waits) == pytest.approx(max(shares))
