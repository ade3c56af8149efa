"""Processes die at random times under load, and every job is accounted for."""

import asyncio
import os
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.chaos.accounts import check, check_restrictions, settle
from tests.chaos.changes import CHANGES, Operator
from tests.chaos.faults import SCENARIOS, Fault, any_two_parts, kill, strike
from tests.chaos.load import Load
from tests.chaos.system import System, running_system
from tests.fixtures.scratch import scratch_path
from tests.fixtures.waiting import until

SEED = int(os.environ.get("BEACON_CHAOS_SEED", "20261116"))  # of `make test`; `make chaos` draws one
ROUNDS = int(os.environ.get("BEACON_CHAOS_ROUNDS", "2"))

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system() -> AsyncIterator[System]:
    """One for all tests of this module: starting ten processes takes longer than most faults."""
    with scratch_path() as home:
        async with running_system(home) as system:
            yield system


async def survive(
    system: System, faults: list[Fault], *, jobs: int, seed: int, within_s: float = 1.5
) -> None:
    system.begin()
    load = Load(system.api_url, system.admin_key, system.receiver.url, seed)
    await load.enroll()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.submit(jobs))
        group.create_task(strike(system, faults, random.Random(seed), within_s=within_s))
    assert len(load.accepted) == jobs
    await settle(system)
    await check(system, load)


@pytest.mark.stack
@pytest.mark.timeout(480)
async def test_no_job_is_lost_or_run_twice_when_any_process_dies(system: System) -> None:
    """The short version: under one load each process except the routers is killed once."""
    chosen = ["worker killed", "relay killed", "redis flushed", "api killed", "postgres killed"]
    rng = random.Random(SEED)
    rng.shuffle(chosen)
    await survive(system, [SCENARIOS[name] for name in chosen], jobs=100, seed=SEED)


@pytest.mark.stack
@pytest.mark.timeout(480)
async def test_no_job_is_lost_when_the_router_forgets_and_a_worker_freezes(system: System) -> None:
    faults = [SCENARIOS["worker frozen past its lease"], kill("router", "worker-2")]
    await survive(system, faults, jobs=50, seed=SEED + 1)


@pytest.mark.stack
@pytest.mark.timeout(480)
async def test_no_job_is_lost_when_one_of_two_routers_is_killed(system: System) -> None:
    """The other router continues its runs and takes over the requests; the cap holds throughout."""
    await survive(system, [SCENARIOS["one of two routers killed"]], jobs=50, seed=SEED + 2)


@pytest.mark.stack
@pytest.mark.timeout(480)
async def test_no_job_is_lost_when_routers_lose_their_leases(system: System) -> None:
    """One is frozen, the other loses only Redis; the cap is exceeded at most while one is frozen."""
    faults = [SCENARIOS["router frozen past its lease"], SCENARIOS["router without redis"]]
    await survive(system, faults, jobs=150, seed=SEED + 3)


async def change(operator: Operator, names: list[str], rng: random.Random) -> None:
    for name in names:
        await asyncio.sleep(rng.uniform(0.0, 0.5))
        await CHANGES[name](operator)


async def survive_changes(
    system: System, names: list[str], faults: list[Fault], *, jobs: int, seed: int
) -> None:
    """The configuration changes under load while processes die."""
    system.begin()
    await system.allow_gpu_calls("gpusim-us", 12)  # two for the backend that is added
    load = Load(system.api_url, system.admin_key, system.receiver.url, seed)
    await load.enroll()
    operator = Operator(system, load)
    async with asyncio.TaskGroup() as group:
        group.create_task(load.submit(jobs))
        group.create_task(change(operator, names, random.Random(seed)))
        group.create_task(strike(system, faults, random.Random(seed), within_s=6.0))
    await until(operator.applied, "all routers run on the newest revision")
    await settle(system)
    await check(system, load)
    await check_restrictions(system, load, operator.restrictions)


@pytest.mark.stack
@pytest.mark.timeout(480)
async def test_no_job_is_lost_when_the_configuration_changes(system: System) -> None:
    """Drains, a pause, a smaller cap, a backend that comes and goes; relay and router die in between."""
    rng = random.Random(SEED)
    names = rng.sample(list(CHANGES), len(CHANGES))
    faults = [kill("relay"), kill("router-2"), kill("api")]
    await survive_changes(system, names, faults, jobs=50, seed=SEED + 4)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
async def test_random_changes_of_the_configuration(system: System) -> None:
    rng = random.Random(SEED)
    names = [rng.choice(list(CHANGES)) for _ in range(6 * ROUNDS)]
    faults = [any_two_parts(rng) for _ in range(3 * ROUNDS)]
    await survive_changes(system, names, faults, jobs=200 * ROUNDS, seed=SEED)


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SCENARIOS)
async def test_repeated_faults_of_each_kind(system: System, name: str) -> None:
    faults = [SCENARIOS[name]] * ROUNDS
    await survive(system, faults, jobs=100 * ROUNDS, seed=SEED, within_s=4.0)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
async def test_random_faults(system: System) -> None:
    rng = random.Random(SEED)
    single = [rng.choice(list(SCENARIOS.values())) for _ in range(7 * ROUNDS)]
    double = [any_two_parts(rng) for _ in range(3 * ROUNDS)]
    faults = rng.sample([*single, *double], 10 * ROUNDS)
    await survive(system, faults, jobs=400 * ROUNDS, seed=SEED, within_s=5.0)
