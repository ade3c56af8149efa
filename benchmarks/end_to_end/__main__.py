"""`python -m benchmarks.end_to_end`: whole systems, written to `benchmarks/results/end_to_end.md`."""

import argparse
import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from benchmarks.end_to_end.beacon_system import beacon_system
from benchmarks.end_to_end.report import BEACON, BEFORE, CELERY, PGQUEUER, Measured, write_report
from benchmarks.harness.cpu import CpuMeter
from benchmarks.harness.machine import machine_facts
from benchmarks.harness.process import ROOT, Program, running
from benchmarks.harness.rounds import shuffled_rounds
from benchmarks.harness.servers import SharedServers, shared_servers
from benchmarks.router.processes import TOKEN, environment

PEERS = ROOT / ".venv-peers-end-to-end"
PYTHON = PEERS / "bin" / "python"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
JOBS = {BEACON: 3_000, BEFORE: 3_000, PGQUEUER: 300, CELERY: 200}
READY_S, WORK_S = 120.0, 120.0

RunJobs = Callable[[int], Awaitable[float]]


class Measurement:
    """Starts each system on fresh target, warms it up and measures it once."""

    def __init__(self, servers: SharedServers, backend_url: str) -> None:
        self._servers = servers
        self._backend_url = backend_url
        self._number = 0

    async def beacon(self, checkout: Path, jobs: int) -> Measured:
        async with (
            self._servers.target("beacon") as target,
            beacon_system(checkout, target, self._backend_url) as system,
        ):
            return await self._measure(system.run_jobs, {"system": system.pid}, jobs)

    async def pgqueuer(self, jobs: int) -> Measured:
        program = Program(PYTHON, "benchmarks.end_to_end.pgqueuer_litellm", {"backend": self._backend_url})
        async with self._peer_process(program) as (run_jobs, pid):
            return await self._measure(run_jobs, {"system": pid}, jobs)

    async def celery(self, jobs: int) -> Measured:
        self._number += 1
        async with environment() as servers:
            backend = await servers.backend("backend", 0.0)
            proxy = await servers.litellm_proxy(f"proxy-{self._number}", PYTHON, backend)
            options = {"proxy": proxy.url, "token": TOKEN}
            program = Program(PYTHON, "benchmarks.end_to_end.celery_litellm", options)
            async with self._peer_process(program) as (run_jobs, pid):
                return await self._measure(run_jobs, {"system": pid, "proxy": proxy.pid}, jobs)

    @asynccontextmanager
    async def _peer_process(self, program: Program) -> AsyncIterator[tuple[RunJobs, int]]:
        async with (
            self._servers.target("peer") as target,
            running(
                program, database_url=target.database_url, redis_url=target.redis_url, log=target.log
            ) as system,
        ):
            await system.ask("prepare", within_s=READY_S)

            async def run_jobs(count: int) -> float:
                seconds: float = await system.ask("run_jobs", within_s=WORK_S, count=count)
                return seconds

            yield run_jobs, system.pid

    async def _measure(self, run_jobs: RunJobs, pids: dict[str, int], jobs: int) -> Measured:
        await run_jobs(max(jobs // 10, 50))  # warm-up
        meter = CpuMeter({**pids, **self._servers.pids})
        seconds = await run_jobs(jobs)
        return Measured(jobs / seconds, sum(meter.used().values()) / jobs * 1e6)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.end_to_end", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--baseline", type=Path, help="another checkout of Beacon, with its environment")
    parser.add_argument("--install-peers", action="store_true", help="install the peers first")
    chosen, _ = parser.parse_known_args(arguments)
    if chosen.install_peers:
        _install_peers()
    rounds = asyncio.run(_rounds(chosen.rounds, chosen.seed, chosen.baseline and chosen.baseline.resolve()))
    how = (
        f"{chosen.rounds} shuffled rounds, seed {chosen.seed}; {JOBS[BEACON]:,} jobs of Beacon, "
        f"{JOBS[PGQUEUER]} and {JOBS[CELERY]} of the others"
    )
    print(f"written: {write_report(rounds, how, machine_facts())}")
    return 0


async def _rounds(rounds: int, seed: int, baseline: Path | None) -> list[dict[str, Measured]]:
    found = []
    async with shared_servers() as servers, environment() as programs:
        backend = await programs.backend("backend", 0.0)
        measurement = Measurement(servers, backend.url)
        systems: dict[str, Callable[[int], Awaitable[Measured]]] = {BEACON: partial(measurement.beacon, ROOT)}
        if baseline is not None:
            systems[BEFORE] = partial(measurement.beacon, baseline)
        if PYTHON.exists():
            systems |= {PGQUEUER: measurement.pgqueuer, CELERY: measurement.celery}
        for order in shuffled_rounds([*systems], rounds, seed):
            one = {}
            for name in order:
                one[name] = await systems[name](JOBS[name])
                print(f"  {name}: {one[name].rate:,.0f} jobs/s, {one[name].cpu_us:,.0f} µs CPU", flush=True)
            found.append(one)
    return found


def _install_peers() -> None:
    print(f"==> installing {REQUIREMENTS.name} into {PEERS.name}", flush=True)
    shutil.rmtree(PEERS, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
    pip = [str(PYTHON), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", str(REQUIREMENTS)]
    subprocess.run(pip, check=True)


if __name__ == "__main__":
    sys.exit(main())
