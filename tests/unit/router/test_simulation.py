"""A load in virtual time: the runs of the simulation, and its report."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon_router.scheduling import BackendSpec, GroupSpec, ModelSpec, Policy, RegionSpec, Topology
from beacon_router.simulation.__main__ import main
from beacon_router.simulation.load import Arrival, GeneratedLoad, LoadError, generate, read_load
from beacon_router.simulation.simulator import LoadSimulation, SimulatedRun
from beacon_router.simulation.summary import summarise

SHIPPED = Path(__file__).parents[3] / "config" / "beacon.toml"
TIERS = ("admin", "creator", "premium", "supporter", "free")
TOPOLOGY = Topology(
    regions=(RegionSpec("US"), RegionSpec("EU")),
    models=(
        ModelSpec("flux", expected_load_s=10.0, expected_run_s=4.0),
        ModelSpec("llama", expected_load_s=2.0, expected_run_s=1.0),
    ),
    backends=(
        BackendSpec("us-1", "US", frozenset({"flux", "llama"}), slots=2, group="cloud"),
        BackendSpec("eu-1", "EU", frozenset({"llama"}), slots=1),
    ),
    groups=(GroupSpec("cloud", 2),),
)


def _run(arrivals: list[Arrival]) -> list[SimulatedRun]:
    return LoadSimulation(TOPOLOGY, Policy()).run(arrivals)


def _request(at: float, model: str = "flux", user: str = "ann", run_s: float = 4.0) -> Arrival:
    return Arrival(at, user, "free", 4, model, "US", run_s)


def test_a_request_waits_for_the_load_of_its_model() -> None:
    (run,) = _run([_request(1.0)])
    assert (run.wait_s, run.load_s, run.ended_s, run.caused_load) == (0.0, 10.0, 15.0, True)


def test_a_second_slot_waits_for_the_same_load() -> None:
    first, second = _run([_request(0.0), _request(1.0)])
    assert first.caused_load
    assert not second.caused_load
    assert second.ended_s == 14.0


def test_a_loaded_model_is_not_loaded_again() -> None:
    _, second = _run([_request(0.0), _request(20.0)])
    assert (second.load_s, second.caused_load) == (0.0, False)


def test_a_load_waits_for_the_run_of_the_model_that_it_evicts() -> None:
    first, second = _run([_request(0.0), _request(1.0, "llama", run_s=1.0)])
    assert (second.started_s, second.load_s) == (1.0, first.ended_s - 1.0 + 2.0)


def test_a_report_counts_waits_loads_and_use() -> None:
    runs = _run([_request(0.0), _request(0.0, user="ben"), _request(0.0, user="ben")])
    report = summarise(TOPOLOGY, runs)
    assert (report.requests, report.loads, report.duration_s) == (3, 1, 18.0)
    assert [(user.name, user.requests) for user in report.users] == [("ben", 2), ("ann", 1)]
    assert report.tiers[0].max_wait_s == 14.0
    us, eu = report.backends
    assert us.run_share == pytest.approx(12 / 36)
    assert us.load_share == pytest.approx(20 / 36)
    assert sum(us.timeline) / len(us.timeline) == pytest.approx(32 / 36)
    assert eu.run_share == 0.0


@settings(max_examples=40, deadline=None)
@given(
    st.builds(
        GeneratedLoad,
        requests=st.integers(1, 200),
        load=st.floats(0.05, 3.0),
        users=st.integers(1, 20),
        bursts=st.booleans(),
        seed=st.integers(0, 1_000),
    )
)
def test_every_generated_request_runs_once_within_the_limits(load: GeneratedLoad) -> None:
    arrivals = generate(TOPOLOGY, TIERS, load)
    runs = _run(arrivals)
    assert sorted(id(run.arrival) for run in runs) == sorted(map(id, arrivals))
    assert all(run.wait_s >= 0 for run in runs)
    for name, slots in (("us-1", 2), ("eu-1", 1)):
        changes = sorted(
            change
            for run in runs
            if run.backend == name
            for change in ((run.started_s, 1), (run.ended_s, -1))
        )
        running = 0
        for _, change in changes:
            running += change
            assert running <= slots


def test_the_same_seed_gives_the_same_load() -> None:
    assert generate(TOPOLOGY, TIERS, GeneratedLoad(seed=7)) == generate(
        TOPOLOGY, TIERS, GeneratedLoad(seed=7)
    )
    assert generate(TOPOLOGY, TIERS, GeneratedLoad(seed=7)) != generate(
        TOPOLOGY, TIERS, GeneratedLoad(seed=8)
    )


def test_a_generated_load_has_the_requested_utilisation() -> None:
    arrivals = generate(TOPOLOGY, TIERS, GeneratedLoad(requests=5_000, load=0.5))
    slot_s = 3 * (arrivals[-1].arrival_s - arrivals[0].arrival_s)
    assert sum(arrival.run_s for arrival in arrivals) / slot_s == pytest.approx(0.5, rel=0.02)


def test_a_recorded_load_is_read_in_order_of_arrival(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    path.write_text(
        "arrival_s,user,tier,model,region,run_s\n5,ann,free,flux,US,3\n1,ben,admin,llama,,2\n",
        encoding="utf-8",
    )
    first, second = read_load(path, TOPOLOGY, TIERS)
    assert (first.user, first.tier, first.run_s) == ("ben", "admin", 2.0)
    assert first.region in {"US", "EU"}
    assert second == Arrival(5.0, "ann", "free", 4, "flux", "US", 3.0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0,ann,free,dalle,US,1", "line 2: no backend serves the model 'dalle'"),
        ("0,ann,free,flux,EU,1", "line 2: no backend in the region 'EU' serves 'flux'"),
        ("0,ann,gold,flux,US,1", "line 2: no tier 'gold'; tiers are admin, creator"),
        ("-1,ann,free,flux,US,1", "line 2: arrival_s must be a number of seconds, not '-1'"),
        ("0,ann,free,flux,US,inf", "line 2: run_s must be a number of seconds, not 'inf'"),
        ("0,ann,free,flux,US", "line 2: run_s must be a number of seconds, not None"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "load.csv"
    path.write_text(f"arrival_s,user,tier,model,region,run_s\n{row}\n", encoding="utf-8")
    with pytest.raises(LoadError) as refused:
        read_load(path, TOPOLOGY, TIERS)
    assert message in str(refused.value)


def test_a_file_without_columns_or_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    path.write_text("arrival_s,user\n1,ann\n", encoding="utf-8")
    with pytest.raises(LoadError, match="no column model, run_s, tier"):
        read_load(path, TOPOLOGY, TIERS)
    path.write_text("arrival_s,user,tier,model,run_s\n", encoding="utf-8")
    with pytest.raises(LoadError, match="no requests"):
        read_load(path, TOPOLOGY, TIERS)


@pytest.mark.parametrize(
    ("name", "message"), [("none.csv", "No such file"), ("bytes.csv", "not a text file")]
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    message: str,
) -> None:
    (tmp_path / "bytes.csv").write_bytes(b"\x9a\xff")
    monkeypatch.setattr("sys.argv", ["simulation", str(SHIPPED), "--trace", str(tmp_path / name)])

    assert main() == 2

    error = capsys.readouterr().err
    assert name in error
    assert message in error
