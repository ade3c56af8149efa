"""`python -m benchmarks.router`: measure, and write benchmarks/results/router.md."""

import argparse
import asyncio
import signal
import sys

from benchmarks.harness.machine import raise_priority
from benchmarks.router import peers
from benchmarks.router.plan import Findings, Plan, Sizes
from benchmarks.router.processes import environment
from benchmarks.router.report import write_report


async def measure_all(sizes: Sizes, *, with_peers: bool) -> Findings:
    """SIGTERM ends the measurement as Ctrl-C does; the servers have ended when it returns."""
    measuring = asyncio.current_task()
    if measuring is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, measuring.cancel)
    async with environment() as place:
        return await Plan(place, sizes, with_peers=with_peers).run()


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.router", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=4_000)
    parser.add_argument("--peer-requests", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    raise_priority()
    sizes = Sizes(given.rounds, given.requests, given.peer_requests, given.seed)
    if not peers.installed():
        print("LiteLLM is not installed and is left out; `make bench-peers` installs it")
    findings = asyncio.run(measure_all(sizes, with_peers=peers.installed()))
    print(f"wrote {write_report(findings, sizes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
