"""`python -m benchmarks.scheduling`: simulate, measure, write benchmarks/results/scheduling.md."""

import argparse
import os
import sys
from collections.abc import Sequence

from benchmarks.harness.machine import facts_line, machine_facts
from benchmarks.scheduling.cores import core_costs
from benchmarks.scheduling.findings import simulate
from benchmarks.scheduling.report import write_report
from benchmarks.scheduling.scenarios import all_scenarios


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.scheduling", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--decisions", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=3_600.0, help="of generated arrivals")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--samples", type=int, default=60, help="arrivals at which the knowable is looked for"
    )
    parser.add_argument("--traces", default=os.environ.get("BEACON_TRACES"), help="a directory of CSV files")
    chosen, _ = parser.parse_known_args(arguments)
    costs = core_costs(chosen.rounds, chosen.decisions, chosen.seed)
    found = simulate(all_scenarios(chosen.traces, chosen.seed, chosen.seconds), chosen.samples)
    how = (
        f"Seed {chosen.seed}; decisions in {chosen.rounds} shuffled rounds of {chosen.decisions:,}; "
        f"{facts_line(machine_facts())}. To repeat it: `make bench NAME=scheduling`."
    )
    for path in write_report(found, costs, how):
        print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
