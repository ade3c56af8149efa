"""`python -m benchmarks.scheduling`: simulate, measure, write benchmarks/results/scheduling.md."""

import argparse
import os
import sys
from collections.abc import Sequence

from benchmarks.harness.machine import facts_line, machine_facts
from benchmarks.scheduling.cost import measure_costs
from benchmarks.scheduling.flood import measure_flood
from benchmarks.scheduling.measurements import LOADS, measure
from benchmarks.scheduling.report import write_report
from benchmarks.scheduling.scenarios import all_scenarios
from benchmarks.scheduling.seeds import measure_seeds


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.scheduling", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--decisions", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=5_000, help="of each scenario")
    parser.add_argument("--loads", type=float, nargs="+", default=LOADS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="*", default=(1, 2, 3), help="of the table of seeds")
    parser.add_argument("--traces", default=os.environ.get("BEACON_TRACES"), help="a directory of CSV files")
    chosen, _ = parser.parse_known_args(arguments)
    costs = measure_costs(chosen.rounds, chosen.decisions, chosen.seed)
    found = measure(all_scenarios(chosen.traces, chosen.seed, chosen.requests), chosen.loads, chosen.seed)
    seeds = measure_seeds(chosen.traces, chosen.seeds, chosen.requests)
    measured = (
        f"Seed {chosen.seed}; {chosen.requests:,} requests per scenario; decisions in {chosen.rounds} "
        f"shuffled rounds of {chosen.decisions:,}; {facts_line(machine_facts())}. "
        "To repeat it: `make bench NAME=scheduling`."
    )
    for path in write_report(found, measure_flood(chosen.seed), costs, seeds=seeds, measured=measured):
        print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
