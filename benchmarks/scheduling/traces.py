"""Arrivals from CSV files. Columns that a file lacks are drawn from seeded random numbers."""

import csv
from collections.abc import Mapping
from pathlib import Path

from benchmarks.scheduling.workload import TIERS, Arrival, WorkloadGenerator

SECONDS_PER_TOKEN = 0.03
SECONDS_PER_CONTEXT_TOKEN = 0.00025
"""The run time where a file has tokens instead of seconds."""


def trace_files(directory: str | None) -> list[Path]:
    """The CSV files of a directory; none when there is no directory."""
    return sorted(Path(directory).glob("*.csv")) if directory else []


def read_trace(path: Path, generator: WorkloadGenerator) -> list[Arrival]:
    """Rows of `arrival_s, tenant, model, tier, region, run_s, size`, in order of arrival."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [_arrival(row, generator) for row in csv.DictReader(lines)]
    if not rows:
        raise ValueError(f"{path.name} has no arrivals")
    return sorted(rows, key=lambda arrival: arrival.arrival_s)


def _arrival(row: Mapping[str, str], generator: WorkloadGenerator) -> Arrival:
    drawn = generator.arrival(float(row["arrival_s"]), _run_s(row))
    tier = row.get("tier") or drawn.tier
    if tier not in TIERS:
        raise ValueError(f"no tier {tier!r}")
    return Arrival(
        drawn.arrival_s,
        row.get("tenant") or drawn.tenant,
        row.get("model") or drawn.model,
        tier,
        row.get("region") or drawn.region,
        drawn.run_s,
        float(row["size"]) if row.get("size") else None,
    )


def _run_s(row: Mapping[str, str]) -> float | None:
    if row.get("run_s"):
        return float(row["run_s"])
    if row.get("generated_tokens"):
        context = float(row.get("context_tokens") or 0)
        return float(row["generated_tokens"]) * SECONDS_PER_TOKEN + context * SECONDS_PER_CONTEXT_TOKEN
    return None
