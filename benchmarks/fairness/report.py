"""Writes the tables: of waits, and of submissions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.fairness.tenants import TenantFigures
from benchmarks.harness.machine import facts_line
from benchmarks.harness.process import ROOT
from benchmarks.harness.statistics import Spread, percentile
from benchmarks.harness.table import DASH, TIMES, markdown_table, number, spread

FILE = ROOT / "benchmarks" / "results" / "fairness.md"
HEADER = (
    "lanes",
    "jobs served before, median",
    "worst",
    "wait, median, ms",
    "worst, ms",
    "in the empty system, median, ms",
    "ratio of the medians (quartiles)",
)
TENANT_HEADER = ("`fairness`", "Jain's index", "share of the user with 200", "mean wait of the others, ms")
SERVICES = ("none", "answers", "hangs")
SERVICE_HEADER = ("priority service", "p50, ms", "p99, ms", "p99 over that without one (quartiles)")


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits of users with one job each, in one round: during the bulk, and before it in the empty system."""

    jobs: Sequence[float]
    seconds: Sequence[float]
    alone_seconds: Sequence[float]


def write_report(
    found: Mapping[str, Sequence[Waits]],
    tenants: Mapping[str, Sequence[TenantFigures]],
    submissions: Sequence[Mapping[str, Sequence[float]]],
    *,
    how: str,
    facts: Mapping[str, str],
    file: Path = FILE,
) -> Path:
    lanes = markdown_table(HEADER, [_row(strategy, rounds) for strategy, rounds in found.items()])
    shares = markdown_table(TENANT_HEADER, [_tenant_row(name, rounds) for name, rounds in tenants.items()])
    services = markdown_table(SERVICE_HEADER, [_service_row(name, submissions) for name in SERVICES])
    measured = f"Measured in {how}; {facts_line(facts)}. To repeat it: `make bench NAME=fairness`."
    parts = [
        _prose("introduction"),
        lanes,
        _prose("tenants"),
        shares,
        _prose("priority_service"),
        services,
        measured,
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return file


def _prose(name: str) -> str:
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8").strip()


def _tenant_row(fairness: str, rounds: Sequence[TenantFigures]) -> tuple[str, ...]:
    return (
        f"`{fairness}`",
        spread(Spread.of([figures.jain for figures in rounds])),
        spread(Spread.of([figures.bulk_share for figures in rounds])),
        spread(Spread.of([1000 * figures.small_wait_s for figures in rounds])),
    )


def _service_row(service: str, rounds: Sequence[Mapping[str, Sequence[float]]]) -> tuple[str, ...]:
    p99 = [percentile(one[service], 99) for one in rounds]
    without = [percentile(one["none"], 99) for one in rounds]
    ratios = Spread.of([here / there for here, there in zip(p99, without, strict=True)])
    return (
        service,
        number(1000 * median(percentile(one[service], 50) for one in rounds)),
        number(1000 * median(p99)),
        DASH if service == "none" else spread(ratios) + TIMES,
    )


def _row(strategy: str, rounds: Sequence[Waits]) -> tuple[str, ...]:
    ratios = Spread.of([median(waits.seconds) / median(waits.alone_seconds) for waits in rounds])
    return (
        f"`{strategy}`",
        number(median(median(waits.jobs) for waits in rounds)),
        number(max(max(waits.jobs) for waits in rounds)),
        number(1000 * median(median(waits.seconds) for waits in rounds)),
        number(1000 * max(max(waits.seconds) for waits in rounds)),
        number(1000 * median(median(waits.alone_seconds) for waits in rounds)),
        spread(ratios) + TIMES,
    )
