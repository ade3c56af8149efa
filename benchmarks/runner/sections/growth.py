"""The cost of a claim by the depth of the queue, and the memory of a waiting job."""

from contextlib import AsyncExitStack

from benchmarks.harness.process import SystemProcess, running
from benchmarks.harness.rounds import shuffled_rounds
from benchmarks.harness.run import READY_S, WORK_S
from benchmarks.harness.servers import RunTarget, SharedServers
from benchmarks.runner.entries import of_beacon
from benchmarks.runner.plan import Plan, Section

NAME = "growth"
SMALL, LARGE = 1_000, 1_000_000
FEW, MANY = "few waiting", "many waiting"
REDIS_BYTES, POSTGRES_BYTES, INPUT_BYTES = "Redis bytes", "Postgres bytes", "input bytes"
CLAIMS = 10
FILL_S = 1_200.0


async def measure(servers: SharedServers, plan: Plan) -> Section:
    section = Section(NAME)
    depths = {FEW: SMALL, MANY: max(SMALL * 10, plan.jobs(LARGE))}
    section.settings = {name: f"{depth:,} jobs" for name, depth in depths.items()}
    async with AsyncExitStack() as open_processes:
        queues = {
            name: await _filled(servers, open_processes, name, depth, number)
            for number, (name, depth) in enumerate(depths.items())
        }
        memory = await queues[MANY].ask("memory", within_s=WORK_S, count=depths[MANY])
        for order in shuffled_rounds(list(queues), 2 * plan.rounds, plan.seed):
            section.rounds.append(await _round(order, queues))
        for values in section.rounds:
            values |= {
                REDIS_BYTES: memory["redis"],
                POSTGRES_BYTES: memory["postgres"],
                INPUT_BYTES: memory["input"],
            }
    return section


async def _filled(
    servers: SharedServers, open_processes: AsyncExitStack, name: str, depth: int, number: int
) -> SystemProcess:
    target: RunTarget = await open_processes.enter_async_context(
        servers.target(name.replace(" ", "-"), migrated=True, redis_database=number)
    )
    program = of_beacon("growth").program({})
    queue = await open_processes.enter_async_context(
        running(program, database_url=target.database_url, redis_url=target.redis_url, log=target.log)
    )
    await queue.ask("prepare", within_s=READY_S)
    await queue.ask("fill", within_s=FILL_S, count=depth)
    await servers.settle(target)
    return queue


async def _round(order: list[str], queues: dict[str, SystemProcess]) -> dict[str, float]:
    """Milliseconds of one claim at each depth, in Redis, in Postgres and together."""
    values: dict[str, float] = {}
    for name in order:
        seconds = await queues[name].ask("claim", within_s=WORK_S, rounds=CLAIMS)
        values |= {f"{name}, {part}": 1000 * spent for part, spent in seconds.items()}
        values[name] = 1000 * sum(seconds.values())
    return values
