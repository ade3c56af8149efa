"""`python -m benchmarks.openai_api`: measure, and write benchmarks/results/openai_api.md."""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence

from benchmarks.harness.machine import raise_priority
from benchmarks.harness.rounds import shuffled_rounds
from benchmarks.harness.servers import shared_servers
from benchmarks.openai_api.report import BEACON, DIRECT, LOADS, PROXY, Round, write_report
from benchmarks.openai_api.system import openai_api
from benchmarks.router import peers
from benchmarks.router.measuring import Load, measure
from benchmarks.router.processes import Server, environment

PATH = "/v1/chat/completions"
DELAY_S = 0.05
MAX_PER_CONNECTION = 40


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.openai_api", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1_500, help="with 64 in flight")
    parser.add_argument("--peer-requests", type=int, default=240)
    parser.add_argument("--seed", type=int, default=1)
    chosen, _ = parser.parse_known_args(arguments)
    if not peers.installed():
        print("LiteLLM is not installed and is left out; `python -m benchmarks.router.peers` installs it")
    load_before = os.getloadavg()[0]
    raise_priority()
    rounds = asyncio.run(_measure_all(chosen.rounds, chosen.requests, chosen.peer_requests, chosen.seed))
    litellm = f", LiteLLM {peers.version()}" if peers.installed() else ""
    how = f"{chosen.rounds} shuffled rounds, seed {chosen.seed}, load average {load_before:.1f} before"
    print(f"wrote {write_report(rounds, how + litellm)}")
    return 0


async def _measure_all(rounds: int, requests: int, peer_requests: int, seed: int) -> list[Round]:
    async with (
        shared_servers() as shared,
        environment() as programs,
        shared.target("openai-api", migrated=True) as target,
    ):
        backend = await programs.backend("backend", DELAY_S)
        async with openai_api(shared, target, backend) as beacon:
            systems = {DIRECT: (backend, requests), BEACON: (beacon, requests)}
            if peers.installed():
                proxy = await programs.litellm_proxy("proxy", peers.PYTHON, backend)
                systems[PROXY] = (proxy, peer_requests)
            orders = shuffled_rounds([*systems], rounds, seed)
            return [await _measure_round(number, order, systems) for number, order in enumerate(orders, 1)]


async def _measure_round(
    number: int, order: Sequence[str], systems: Mapping[str, tuple[Server, int]]
) -> Round:
    """All systems under each load."""
    measured: Round = {}
    for name, (shape, in_flight) in LOADS.items():
        measured[name] = {}
        for system in order:
            server, requests = systems[system]
            load = Load(PATH, shape, min(requests, MAX_PER_CONNECTION * in_flight), in_flight)
            found = await measure(server, load)
            measured[name][system] = found
            print(
                f"round {number}: {name}: {system}: p50 {found.p50_ms:.1f} ms, p99 {found.p99_ms:.1f} ms, "
                f"{found.rate:.0f}/s, {found.per_core:.0f} per CPU second",
                flush=True,
            )
    return measured


if __name__ == "__main__":
    sys.exit(main())
