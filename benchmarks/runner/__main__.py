"""`python -m benchmarks.runner`: measure, and write the table and the chart to `benchmarks/results/`."""

import argparse
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from benchmarks.harness.machine import machine_facts
from benchmarks.harness.servers import SharedServers, shared_servers
from benchmarks.harness.termination import run_until_terminated
from benchmarks.peers.entries import versions
from benchmarks.runner.findings import FILE, RESULTS, Findings
from benchmarks.runner.plan import Plan, Section
from benchmarks.runner.report import write_report
from benchmarks.runner.sections import drain, growth, pickup, recovery, submit

SECTIONS: dict[str, Callable[[SharedServers, Plan], Awaitable[Section]]] = {
    drain.NAME: drain.measure,
    submit.NAME: submit.measure,
    pickup.NAME: pickup.measure,
    growth.NAME: growth.measure,
    recovery.NAME: recovery.measure,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.runner", description=__doc__)
    parser.add_argument(
        "--sections", default=",".join(SECTIONS), help="which to measure, separated by commas"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="0.1 measures with a tenth of the jobs")
    parser.add_argument(
        "--peers", type=_names, help="which of the other queues take part; an empty text: none of them"
    )
    parser.add_argument("--into", type=Path, default=RESULTS, help="the folder that keeps what was measured")
    parser.add_argument("--report-only", action="store_true", help="write the report from what was measured")
    chosen = parser.parse_args(arguments)
    findings = Findings.kept(chosen.into / FILE)
    if not chosen.report_only:
        plan = Plan(chosen.rounds, chosen.seed, chosen.scale, chosen.peers)
        run_until_terminated(_measure(plan, _names(chosen.sections), findings))
    for path in write_report(findings, chosen.into):
        print(f"written: {path}")
    return 0


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


async def _measure(plan: Plan, names: Sequence[str], findings: Findings) -> None:
    async with shared_servers() as servers:
        facts = {**machine_facts(), **await servers.versions()}
        for name in names:
            print(f"==> {name}: {plan.rounds} rounds, seed {plan.seed}", flush=True)
            section = await SECTIONS[name](servers, plan)
            findings.keep(section, plan, facts, {peer.name: versions()[peer.name] for peer in plan.others()})


if __name__ == "__main__":
    sys.exit(main())
