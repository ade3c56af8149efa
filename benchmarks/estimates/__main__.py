"""`python -m benchmarks.estimates`: estimated and actual waits, in `benchmarks/results/estimates.md`."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from benchmarks.estimates.measurement import measure
from benchmarks.estimates.report import share_within, write_report
from benchmarks.harness.machine import machine_facts


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.estimates", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="of submissions")
    parser.add_argument("--rate", type=float, default=2.0, help="single jobs a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="print each job")
    chosen, _ = parser.parse_known_args(arguments)
    jobs = asyncio.run(measure(chosen.seconds, chosen.rate, chosen.seed))
    if chosen.verbose:
        for one in sorted(jobs, key=lambda one: one.at_s):
            print(one)
    print(f"within a factor of 2: {share_within(jobs):.0%}")
    how = f"{len(jobs)} jobs in {chosen.seconds:g} s, seed {chosen.seed}"
    print(f"written: {write_report(jobs, how, machine_facts())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
