"""The bare resources, and how the rate of a system is measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.entry import Entry
from benchmarks.harness.process import running
from benchmarks.harness.run import READY_S, WORK_S
from benchmarks.harness.servers import SharedServers
from benchmarks.runner.entries import of_beacon
from benchmarks.runner.plan import Plan

INSERT_MANY = "bare asyncpg, insert in batches of 100"
INSERT_1, INSERT_32 = "bare asyncpg, insert on 1 connection", "bare asyncpg, insert on 32 connections"
RESULTS, REDIS = "bare asyncpg, results in batches of 100", "bare Redis, push, claim and acknowledge by 100"


@dataclass(frozen=True, slots=True)
class Task:
    """One command of one system; its answer is a rate."""

    entry: Entry
    command: str
    jobs: int
    arguments: Mapping[str, Any] = field(default_factory=dict)


BARE = {
    INSERT_MANY: Task(of_beacon("limits"), "insert_many", 60_000, {"connections": 4}),
    INSERT_1: Task(of_beacon("limits"), "insert_one", 2_000, {"connections": 1}),
    INSERT_32: Task(of_beacon("limits"), "insert_one", 10_000, {"connections": 32}),
    RESULTS: Task(of_beacon("limits"), "record_many", 40_000, {"connections": 4}),
    REDIS: Task(of_beacon("limits"), "redis_queue", 100_000),
}


async def rate(servers: SharedServers, plan: Plan, task: Task) -> float:
    program = task.entry.program(task.entry.variants[0])
    async with (
        servers.target(task.entry.name, migrated=True) as target,
        running(
            program, database_url=target.database_url, redis_url=target.redis_url, log=target.log
        ) as system,
    ):
        await system.ask("prepare", within_s=READY_S)
        await servers.settle(target)
        found: float = await system.ask(
            task.command, within_s=WORK_S, count=plan.jobs(task.jobs), **task.arguments
        )
        await system.ask("close", within_s=READY_S)
    return found
