"""`beacon simulate`: what a configuration does under load, in virtual time."""

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from beacon_cli.commands.live_config import DEFAULT
from beacon_cli.errors import InputError
from beacon_cli.output.formatting import seconds
from beacon_cli.output.printing import AsJson, facts, print_result, table
from beacon_contracts.simulation import SimulatedBackend, SimulatedWaits, SimulationReport

_SIMULATION = "beacon_router.simulation"
_LEVELS = " ▁▂▃▄▅▆▇█"
_BAR_WIDTH = 40
_WAIT_COLUMNS = ("requests", "GPU time", "mean wait", "p50", "p95", "max", "loads")

Config = Annotated[
    Path | None,
    typer.Argument(
        envvar="BEACON_CONFIG", help=f"The configuration file [default: {DEFAULT}].", show_default=False
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        help="A CSV file of recorded requests: arrival_s, user, tier, model, run_s and, optionally, region."
    ),
]
Requests = Annotated[int, typer.Option(min=1, max=200_000, help="Number of generated requests.")]
Load = Annotated[
    float,
    typer.Option(min=0.01, max=10.0, help="Share of all slots' time that the generated runs take."),
]
Users = Annotated[int, typer.Option(min=1, max=100_000, help="Number of users of the generated load.")]
Bursts = Annotated[bool, typer.Option("--bursts", help="Generate requests in bursts instead of steadily.")]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers: the same seed, the same load.")]
Top = Annotated[int, typer.Option(min=0, help="How many users to show, by GPU time.")]


def simulate(
    config: Config = None,
    *,
    trace: Trace = None,
    requests: Requests = 2_000,
    load: Load = 0.7,
    users: Users = 50,
    bursts: Bursts = False,
    seed: Seed = 1,
    top: Top = 10,
    _json: AsJson = False,
) -> None:
    """Run a generated or recorded load against a configuration file in virtual time, without any server.

    Shows waits by tier, user and model, model loads and the use of each backend. The scheduler is that of the
    router. Load times are the expected ones of the file; generated run times vary around the expected ones.
    """
    options = [str(config or DEFAULT), "--seed", str(seed)]
    if trace is not None:
        options += ["--trace", str(trace)]
    else:
        options += ["--requests", str(requests), "--load", str(load), "--users", str(users)]
        options += ["--bursts"] if bursts else []
    report = _run(options)
    print_result(
        report,
        facts(
            [
                ("requests", f"{report.requests:,} in {seconds(report.duration_s)}"),
                ("model loads", f"{report.loads:,}"),
                (
                    "slots in use",
                    f"{report.run_share:.0%} runs, {report.load_share:.0%} until the model was loaded",
                ),
            ]
        ),
        "",
        _waits("tier", report.tiers),
        "",
        _bars("p95 wait by tier", report.tiers),
        "",
        _waits("model", report.models),
        "",
        _waits("user", report.users[:top]),
        "",
        _backends(report.backends),
    )


def _run(options: Sequence[str]) -> SimulationReport:
    """The router's code runs in its own process: this package does not import services."""
    if find_spec("beacon_router") is None:
        raise InputError("the simulation is part of the package beacon-router, which is not installed here")
    done = subprocess.run(  # noqa: S603 - this interpreter, with checked options
        [sys.executable, "-m", _SIMULATION, *options], capture_output=True, text=True, check=False
    )
    if done.returncode == 2:
        raise InputError(done.stderr.strip())
    if done.returncode != 0:
        raise RuntimeError(f"the simulation failed:\n{done.stderr}")
    return SimulationReport.model_validate_json(done.stdout)


def _waits(kind: str, rows: Sequence[SimulatedWaits]) -> Table:
    return table(
        (kind, *_WAIT_COLUMNS),
        (
            (
                row.name,
                f"{row.requests:,}",
                seconds(row.gpu_s),
                seconds(row.mean_wait_s),
                seconds(row.p50_wait_s),
                seconds(row.p95_wait_s),
                seconds(row.max_wait_s),
                f"{row.loads:,}",
            )
            for row in rows
        ),
    )


def _bars(title: str, rows: Sequence[SimulatedWaits]) -> Table:
    longest = max((row.p95_wait_s for row in rows), default=0.0) or 1.0
    return table(
        (title, ""),
        (
            (row.name, f"{'█' * round(row.p95_wait_s / longest * _BAR_WIDTH)} {seconds(row.p95_wait_s)}")
            for row in rows
        ),
    )


def _backends(rows: Sequence[SimulatedBackend]) -> Table:
    return table(
        ("backend", "region", "slots", "runs", "loads", "slots in use over time"),
        (
            (
                row.name,
                row.region,
                row.slots,
                f"{row.run_share:.0%}",
                f"{row.load_share:.0%}",
                "".join(_LEVELS[round(min(share, 1.0) * (len(_LEVELS) - 1))] for share in row.timeline),
            )
            for row in rows
        ),
    )
