"""`beacon up` and `beacon demo`: the whole system in one terminal."""

from pathlib import Path
from typing import Annotated

import typer

from beacon_devstack.up import run_demo, run_up

Home = Annotated[
    Path | None,
    typer.Option(envvar="BEACON_HOME", help="Directory of data, logs and keys [default: .beacon]."),
]


def up(home: Home = None) -> None:
    """Start Postgres, Redis, simulated GPUs, router, runner and portal here. Ctrl-C stops them."""
    raise typer.Exit(run_up(home))


def demo(home: Home = None) -> None:
    """Start everything, run 3 questions x 3 models x 3 regions, print the answers and stop."""
    raise typer.Exit(run_demo(home))
