"""Accounts for every job and every run on a GPU after the dust has settled."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from beacon_contracts.ids import read_job
from tests.chaos.load import Load
from tests.chaos.system import System

SETTLED_WITHIN_S = 300.0  # leases end and retries come due meanwhile
LOOK_EVERY_S = 0.5


async def settle(system: System) -> None:
    """Wait until nothing is live any more, in Postgres and in Redis."""
    await _until(lambda: _live_jobs(system), "jobs still live")
    await _until(lambda: _live_messages(system), "messages still in Redis")


async def check(system: System, load: Load) -> None:
    """Submitted = completed, each once; no counter is left over; no result without its run."""
    states = await _states(system)
    accepted = [read_job(job) for job in load.accepted]
    assert len(set(accepted)) == len(accepted), "one submission was accepted as two jobs"
    assert {job: states.get(job) for job in accepted} == dict.fromkeys(accepted, "completed")
    await _each_execution_once(system)
    await _runs_match_results(system)
    async with system.redis() as redis:
        left = {key: await redis.get(key) async for key in redis.scan_iter("queue:*")}
    assert left == {}, "lane counters differ from the truth"


async def _states(system: System) -> dict[object, str]:
    return {row["id"]: row["state"] for row in await system.rows("SELECT id, state FROM jobs")}


async def _each_execution_once(system: System) -> None:
    wrong = await system.rows(
        "SELECT j.id, j.total, count(e.*) AS recorded"
        " FROM jobs j LEFT JOIN executions e ON e.job_id = j.id AND e.state = 'completed'"
        " WHERE j.state = 'completed' GROUP BY j.id, j.total HAVING count(e.*) <> j.total"
    )
    assert wrong == [], "a completed job has not exactly its executions"


async def _runs_match_results(system: System) -> None:
    """The router forgets when it is killed; while it lives, no execution completes twice on a GPU."""
    finished = Counter(
        call["request_id"] for call in system.gpu_calls() if call["outcome"] in ("completed", "empty")
    )
    (recorded,) = await system.rows("SELECT count(*) AS n FROM executions WHERE state = 'completed'")
    assert len(finished) == recorded["n"], "a result was recorded that no GPU made, or one was lost"
    if "router" not in system.killed:
        twice = {request: runs for request, runs in finished.items() if runs > 1}
        assert twice == {}, "executions ran twice to completion"
        assert await system.gpu_excess() == 0, "a GPU was asked for more than its slots"


async def _live_jobs(system: System) -> object:
    rows = await system.rows("SELECT state, count(*) AS n FROM jobs WHERE finished_at IS NULL GROUP BY state")
    return {row["state"]: row["n"] for row in rows}


async def _live_messages(system: System) -> object:
    async with system.redis() as redis:
        return await redis.hgetall("jobs:live")


async def _until(left: Callable[[], Awaitable[object]], what: str) -> None:
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while remaining := await left():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} after {SETTLED_WITHIN_S} s: {remaining}")
        await asyncio.sleep(LOOK_EVERY_S)
