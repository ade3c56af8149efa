"""A frozen Postgres: every wait is bounded, and work continues when Postgres resumes."""

import os
import signal
from pathlib import Path

import pytest

from beacon_devstack.secret_store import Secrets
from beacon_devstack.servers.postgres import FAST, EmbeddedPostgres
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.migrations import migrate
from beacon_runner.postgres.database import Database, DatabaseTimeouts
from tests.fixtures.scratch import scratch_home
from tests.fixtures.waiting import until
from tests.integration.runner_store.harness import StoreHarness, judged

HASTY = DatabaseTimeouts(connect_s=0.3, free_connection_s=0.3, command_s=0.3)


async def test_waits_are_bounded_while_postgres_is_frozen() -> None:
    with scratch_home() as home:
        password = Secrets.fresh().postgres_password
        async with EmbeddedPostgres(home, password=password, settings=FAST) as postgres:
            await migrate.upgrade(postgres.url)
            database = Database(postgres.url, size=1, timeouts=HASTY)
            await database.open()
            try:
                await _freeze_with_a_job_under_way(StoreHarness(database), postgres.child.pid)
            finally:
                await database.close()


async def _freeze_with_a_job_under_way(harness: StoreHarness, postmaster: int) -> None:
    await until(lambda: _answers(harness), "the first connection stands")  # hasty as it is
    await harness.submit()
    claimed = await harness.claim()
    family = _family(postmaster)
    _signal(family, signal.SIGSTOP)
    try:
        for _ in range(3):  # a command that hangs, then no free connection, then one that cannot be opened
            with pytest.raises(StoreUnavailableError):
                await harness.claims.record([judged(claimed, "done")])
    finally:
        _signal(family, signal.SIGCONT)
    await until(lambda: _answers(harness), "it answers again")
    # The first try may have been carried out after all: then the second changes nothing.
    await harness.claims.record([judged(claimed, "done")])
    assert await harness.database.fetchval("SELECT state FROM jobs") == "completed"
    assert await harness.database.fetchval("SELECT count(*) FROM executions") == 1


async def _answers(harness: StoreHarness) -> bool:
    try:
        return bool(await harness.database.fetchval("SELECT 1"))
    except StoreUnavailableError:
        return False


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [pid, *map(int, children)]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
