"""Beacon in the measured settings."""

import sys
from pathlib import Path

from benchmarks.harness.entry import Entry

_PYTHON = Path(sys.executable)
_DRAIN = "benchmarks.runner.systems.beacon_drain"

BEACON = "Beacon"
MANY_LANES = "Beacon, lanes of 20 users"
FROM_OUTBOX = "Beacon, from the outbox on"

DRAINS = (
    Entry(BEACON, _PYTHON, _DRAIN, ({},), jobs=30_000),
    Entry(MANY_LANES, _PYTHON, _DRAIN, ({"users": 20},), jobs=30_000),
    Entry(FROM_OUTBOX, _PYTHON, _DRAIN, ({"outbox": True},), jobs=30_000),
)

HTTP = "benchmarks.runner.systems.http"
APART, ALL = "Beacon", "Beacon, all in one process"
PICKUPS = (
    Entry(APART, _PYTHON, HTTP, ({"server": "api", "width": "shipped"},), pickups=200),
    Entry(ALL, _PYTHON, HTTP, ({"server": "all", "width": "shipped"},), pickups=200),
)


def of_beacon(module: str, **options: object) -> Entry:
    """One of Beacon's systems by its module."""
    return Entry(module, _PYTHON, f"benchmarks.runner.systems.{module}", (options,))
