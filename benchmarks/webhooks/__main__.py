"""`python -m benchmarks.webhooks`: measure, and write benchmarks/results/webhooks.md."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from benchmarks.harness.servers import shared_servers
from benchmarks.webhooks import system
from benchmarks.webhooks.report import IDLE, STALLED, Round, write_report
from benchmarks.webhooks.system import webhook_system

WARM_UP = 20
BACKLOG = 500


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.webhooks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=300, help="in each situation of a round")
    chosen, _ = parser.parse_known_args(arguments)
    load_before = os.getloadavg()[0]
    rounds = [asyncio.run(_measure_round(number, chosen.jobs)) for number in range(1, chosen.rounds + 1)]
    how = f"{chosen.rounds} rounds of {chosen.jobs} jobs, load average {load_before:.1f} before"
    print(f"wrote {write_report(rounds, how)}")
    return 0


async def _measure_round(number: int, jobs: int) -> Round:
    """Idle first: a stalled request stays open until its timeout."""
    async with (
        shared_servers() as shared,
        shared.target("webhooks", migrated=True) as target,
        webhook_system(target) as running,
    ):
        user = await running.user(system.QUICK)
        await running.latencies_ms(user, WARM_UP)
        found = {IDLE: await running.latencies_ms(user, jobs)}
        await running.stall(await running.user(system.STALLED), BACKLOG)
        found[STALLED] = await running.latencies_ms(user, jobs)
    for situation, latencies in found.items():
        print(f"round {number}: {situation}: p50 {sorted(latencies)[len(latencies) // 2]:.1f} ms", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
