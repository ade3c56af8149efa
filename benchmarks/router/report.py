"""Writes the results as a page of tables."""

from pathlib import Path

from benchmarks.harness.chart import Bar, bar_chart
from benchmarks.harness.machine import facts_line, machine_facts
from benchmarks.harness.statistics import Spread, percentile
from benchmarks.harness.table import DASH, TIMES, markdown_table, spread
from benchmarks.router import peers
from benchmarks.router.measuring import Measured
from benchmarks.router.plan import CLASS, DIRECT, ECHO, PROXY, ROUTER, Findings, Round, Sizes

RESULTS = Path(__file__).resolve().parents[1] / "results"


def write_report(findings: Findings, sizes: Sizes, folder: Path = RESULTS) -> Path:
    folder.mkdir(exist_ok=True)
    page = folder / "router.md"
    page.write_text(text(findings, sizes), encoding="utf-8")
    (folder / "router.svg").write_text(drawing(findings), encoding="utf-8")
    return page


def text(findings: Findings, sizes: Sizes) -> str:
    parts = [
        "# The router compared with its limits and its peers",
        _prose("introduction"),
        "## Goals",
        goals(findings),
        "## Requests a second, backend at 0 ms, 64 in flight",
        throughput(findings.throughput),
        "## Latency, backend at 50 ms, 64 in flight",
        latency(findings.latency),
        _prose("reading"),
        _facts(findings, sizes),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def drawing(findings: Findings) -> str:
    bars = [
        Bar(name, Spread.of(_values(findings.throughput, name, "per_core")), ours=name == ROUTER)
        for name in _names(findings.throughput)
        if name != DIRECT
    ]
    subtitle = "backend at 0 ms, 64 in flight; medians with quartiles"
    return bar_chart("Requests per CPU second through a router", subtitle, "requests", bars)


def goals(findings: Findings) -> str:
    per_core = _values(findings.throughput, ROUTER, "per_core")
    rows = [
        ["requests per CPU second of the router", "at least 1,500", spread(Spread.of(per_core))],
        *_peer_goals(findings),
        ["latency added at the median", "at most 3 ms", spread(_added(findings.latency, "p50_ms")) + " ms"],
        ["latency added at p99", "at most 15 ms", spread(_added(findings.latency, "p99_ms")) + " ms"],
        [
            f"an idle region starts another's due retry: slowest of {len(findings.retries_ms)}, and median",
            "at most 100 ms",
            f"{max(findings.retries_ms):.1f} ms, {percentile(findings.retries_ms, 50):.1f} ms",
        ],
    ]
    return markdown_table(["what", "goal", "found"], rows)


def throughput(rounds: list[Round]) -> str:
    rows = [
        [
            name,
            spread(Spread.of(_values(rounds, name, "rate"))),
            spread(Spread.of(_values(rounds, name, "per_core"))),
            spread(_ratio(rounds, name, ECHO, "per_core")) + TIMES,
        ]
        for name in _names(rounds)
    ]
    return markdown_table(["", "requests/s", "requests per CPU second", "of the echo's, per CPU"], rows)


def latency(rounds: list[Round]) -> str:
    rows = [
        [
            name,
            spread(Spread.of(_values(rounds, name, "p50_ms"))),
            spread(Spread.of(_values(rounds, name, "p99_ms"))),
            spread(Spread.of(_values(rounds, name, "rate"))),
        ]
        for name in _names(rounds)
    ]
    return markdown_table(["", "p50 in ms", "p99 in ms", "requests/s"], rows)


def _peer_goals(findings: Findings) -> list[list[str]]:
    if not findings.peers:
        return [["against LiteLLM", DASH, "not installed: `make bench-peers`"]]
    return [
        [f"requests/s against the {name}", f"at least {times}{TIMES}", _times(findings, name)]
        for name, times in ((CLASS, 10), (PROXY, 20))
    ]


def _times(findings: Findings, name: str) -> str:
    by_clock = _ratio(findings.throughput, ROUTER, name, "rate")
    by_cpu = _ratio(findings.throughput, ROUTER, name, "per_core")
    return f"{spread(by_clock)}{TIMES} by the clock, {spread(by_cpu)}{TIMES} by CPU"


def _names(rounds: list[Round]) -> list[str]:
    order = [ROUTER, ECHO, DIRECT, CLASS, PROXY]
    return [name for name in order if any(name in measured for measured in rounds)]


def _values(rounds: list[Round], name: str, what: str) -> list[float]:
    return [float(getattr(measured[name], what)) for measured in rounds if name in measured]


def _ratio(rounds: list[Round], of: str, to: str, what: str) -> Spread | None:
    pairs = [(measured[of], measured[to]) for measured in rounds if of in measured and to in measured]
    return (
        Spread.of([_figure(first, what) / _figure(second, what) for first, second in pairs])
        if pairs
        else None
    )


def _added(rounds: list[Round], what: str) -> Spread:
    return Spread.of(
        [_figure(measured[ROUTER], what) - _figure(measured[DIRECT], what) for measured in rounds]
    )


def _figure(measured: Measured, what: str) -> float:
    return float(getattr(measured, what))


def _prose(name: str) -> str:
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8")


def _facts(findings: Findings, sizes: Sizes) -> str:
    versions = f"; LiteLLM {peers.version()}" if findings.peers else ""
    how = f"{sizes.rounds} rounds of {sizes.requests} requests, seed {sizes.seed}"
    load = f"load average {findings.load_before:.1f} before the start"
    return f"Measured: {how}; {facts_line(machine_facts())}; {load}{versions}."
