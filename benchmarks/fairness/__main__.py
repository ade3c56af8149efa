"""`python -m benchmarks.fairness`: waits of competing users; written to `benchmarks/results/fairness.md`.

First a user's bulk under every lane strategy, then users of one tier at a router, then a priority service
that hangs.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beacon_config.queues import LaneStrategy
from beacon_router.scheduling import Fairness
from benchmarks.fairness.report import SERVICES, Waits, write_report
from benchmarks.fairness.tenants import RUN_S, TenantFigures, measure_tenants
from benchmarks.harness.machine import machine_facts
from benchmarks.harness.process import Program, running
from benchmarks.harness.rounds import shuffled_rounds
from benchmarks.harness.servers import SharedServers, shared_servers
from benchmarks.router.processes import environment

BULK, NEWCOMERS = 1_000, 20
SLOTS, SERVICE_S = 5, 0.02
USERS, SUBMISSIONS, IN_FLIGHT = 100, 12_000, 8
READY_S, WORK_S = 60.0, 120.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.fairness", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    chosen, _ = parser.parse_known_args(arguments)
    waits, submissions = asyncio.run(_measure(chosen.rounds, chosen.seed))
    tenants = asyncio.run(_tenants(chosen.rounds, chosen.seed))
    how = (
        f"{chosen.rounds} shuffled rounds, seed {chosen.seed}; one worker with {SLOTS} slots, a job takes "
        f"{SERVICE_S * 1000:g} ms; {SUBMISSIONS:,} submissions of {USERS} users, {IN_FLIGHT} in flight"
    )
    print(f"written: {write_report(waits, tenants, submissions, how=how, facts=machine_facts())}")
    return 0


async def _measure(rounds: int, seed: int) -> tuple[dict[str, list[Waits]], list[dict[str, list[float]]]]:
    waits: dict[str, list[Waits]] = {strategy: [] for strategy in LaneStrategy}
    submissions: list[dict[str, list[float]]] = []
    async with shared_servers() as servers:
        for order in shuffled_rounds([*LaneStrategy], rounds, seed):
            for strategy in order:
                found = await _waits(servers, strategy)
                waits[strategy].append(found)
                print(f"  {strategy}: {max(found.jobs):.0f} jobs before the last", flush=True)
        for order in shuffled_rounds(SERVICES, rounds, seed):
            submissions.append({service: await _submissions(servers, service) for service in order})
            print(f"  submissions: {', '.join(order)}", flush=True)
    return waits, submissions


async def _tenants(rounds: int, seed: int) -> dict[str, list[TenantFigures]]:
    found: dict[str, list[TenantFigures]] = {fairness: [] for fairness in Fairness}
    async with environment() as servers:
        gpu = await servers.gpu("gpu", RUN_S)
        for number, order in enumerate(shuffled_rounds([*Fairness], rounds, seed)):
            for fairness in order:
                name = f"router-{fairness}-{number}"
                found[fairness].append(await measure_tenants(servers, gpu, Fairness(fairness), name))
                print(f"  {fairness}: Jain's index {found[fairness][-1].jain:.3f}", flush=True)
    return found


async def _submissions(servers: SharedServers, service: str) -> list[float]:
    settings: dict[str, Any] = {"service": service, "users": USERS}
    program = Program(Path(sys.executable), "benchmarks.fairness.submitter", settings)
    async with (
        servers.target("priorities", migrated=True) as target,
        running(
            program, database_url=target.database_url, redis_url=target.redis_url, log=target.log
        ) as system,
    ):
        await system.ask("prepare", within_s=READY_S)
        took: list[float] = await system.ask(
            "submit", within_s=WORK_S, count=SUBMISSIONS, in_flight=IN_FLIGHT
        )
    return took


async def _waits(servers: SharedServers, strategy: str) -> Waits:
    settings: dict[str, Any] = {"strategy": strategy, "slots": SLOTS, "service_s": SERVICE_S}
    program = Program(Path(sys.executable), "benchmarks.fairness.system", settings)
    async with (
        servers.target("fairness", migrated=True) as target,
        running(
            program, database_url=target.database_url, redis_url=target.redis_url, log=target.log
        ) as system,
    ):
        await system.ask("prepare", within_s=READY_S)
        await system.ask("alone", within_s=WORK_S, newcomers=NEWCOMERS)  # warm-up
        alone = await system.ask("alone", within_s=WORK_S, newcomers=NEWCOMERS)
        crowded = await system.ask("crowded", within_s=WORK_S, bulk=BULK, newcomers=NEWCOMERS)
        await system.ask("close", within_s=READY_S)
    return Waits(crowded["jobs"], crowded["seconds"], alone["seconds"])


if __name__ == "__main__":
    sys.exit(main())
