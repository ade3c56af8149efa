"""Small groups run while the disk writes; nobody is promised anything before it has."""

import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import pytest

from beacon_devstack.postgres import FAST, EmbeddedPostgres
from beacon_devstack.secret_store import Secrets
from beacon_lifecycle import SystemClock
from beacon_runner.domain.errors import StoreUnavailableError
from beacon_runner.domain.messages import Message
from beacon_runner.domain.quotas import Allowance
from beacon_runner.migrations import migrate
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.intake import Intake
from beacon_runner.postgres.submissions import NewJob, Submissions, Submitted
from tests.fixtures.scratch import scratch_home
from tests.integration.runner_store.bed import Bed, new_job

# So that a crash really forgets: nobody else writes the log out soon.
FORGETFUL = {**FAST, "wal_writer_delay": "10s", "synchronous_commit": "on"}
PROCESSES = "SELECT pid FROM pg_stat_activity"


@dataclass
class Courier:
    """Carries small groups; `meanwhile` happens when it hears of one, which is before the disk has it."""

    meanwhile: Callable[[], None] = lambda: None
    carried: list[NewJob] = field(default_factory=list)
    carries: int = 20

    def __call__(self, jobs: Sequence[NewJob], numbers: Sequence[int], fence: int = 0) -> None:
        assert len(numbers) == len(jobs)
        self.carried += jobs
        self.meanwhile()


@dataclass
class Crashing:
    postgres: EmbeddedPostgres
    bed: Bed
    processes: Sequence[int] = ()

    async def aim(self) -> None:
        self.processes = [row["pid"] for row in await self.bed.database.fetch(PROCESSES)]

    def kill(self) -> None:
        """All of it at once: a backend that outlives its server for a moment could still write."""
        for process in (self.postgres.child.pid, *self.processes):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    async def restart(self) -> None:
        await self.postgres.kill()
        await self.postgres.start()

    async def crash(self) -> None:
        await self.aim()
        self.kill()
        await self.restart()

    async def stored(self) -> int:
        return int(await self.bed.database.fetchval("SELECT count(*) FROM jobs"))


@pytest.fixture
async def crashing() -> AsyncIterator[Crashing]:
    async with _crashing() as made:
        yield made


@asynccontextmanager
async def _crashing() -> AsyncIterator[Crashing]:
    with scratch_home() as home:
        password = Secrets.fresh().postgres_password
        async with EmbeddedPostgres(home, password=password, settings=FORGETFUL) as postgres:
            await migrate.upgrade(postgres.url)
            database = Database(postgres.url)
            await database.open()
            try:
                yield Crashing(postgres, Bed(database))
            finally:
                await database.close()


def keyed(key: str = "once", **more: object) -> NewJob:
    return replace(new_job(), idempotency_key=key, request_hash=b"same", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 3])
async def test_what_a_crash_forgets_was_not_promised_and_does_no_harm(crashing: Crashing, count: int) -> None:
    courier = Courier(crashing.kill)
    jobs = [keyed(f"key {number}") for number in range(count)]
    await crashing.aim()
    with pytest.raises(StoreUnavailableError):
        await Submissions(crashing.bed.database, courier).submit(jobs)
    assert courier.carried == jobs, "they were on their way to Redis"
    await crashing.restart()
    assert await crashing.stored() == 0
    messages = [Message(job.id, 1, 0, 1, job.job_class, job.lane) for job in jobs]
    assert await crashing.bed.claims.claim(messages, "w1") == []
    again = [replace(job, id=new_job().id) for job in jobs]
    answers = await Submissions(crashing.bed.database).submit(again)
    assert all(isinstance(answer, Submitted) and answer.created for answer in answers)


@pytest.mark.parametrize("allowance", [None, Allowance(pending_jobs=50)])
@pytest.mark.parametrize("count", [1, 3])
async def test_what_was_promised_is_there_after_a_crash(
    crashing: Crashing, count: int, allowance: Allowance | None
) -> None:
    intake = Intake(crashing.bed.database, SystemClock(), 100_000, Courier())
    for round_of in range(2):  # the first one counts the queue, and takes the longer way
        jobs = [replace(new_job(), allowance=allowance) for _ in range(count)]
        assert len(await intake.submit(jobs)) == count
        await crashing.crash()
        assert await crashing.stored() == count * (round_of + 1)
    await intake.close()


async def test_a_batch_under_a_key_is_there_after_a_crash(crashing: Crashing) -> None:
    intake = Intake(crashing.bed.database, SystemClock(), 100_000, Courier())
    await intake.submit([new_job()])
    batch = [replace(new_job(), batch=True) for _ in range(3)]
    assert len(await intake.submit_batch(batch, "key", b"same")) == 3
    await crashing.crash()
    assert await crashing.stored() == 4
    await intake.close()


@pytest.mark.parametrize("allowance", [None, Allowance(pending_jobs=50)])
async def test_a_promise_about_an_earlier_request_waits_for_the_disk_too(
    crashing: Crashing, allowance: Allowance | None
) -> None:
    """The earlier one was stored, and its process died before the disk had it."""
    database = crashing.bed.database
    intake = Intake(database, SystemClock(), 100_000, Courier())
    await intake.submit([new_job()])
    first, second = keyed(allowance=allowance), keyed(allowance=allowance)
    with pytest.raises(_DiedError):
        await Submissions(database, Courier(_die)).submit([first])
    (answer,) = await intake.submit([second])
    assert isinstance(answer, Submitted)
    assert (answer.id, answer.created) == (first.id, False)
    await crashing.crash()
    assert await crashing.stored() == 2
    await intake.close()


class _DiedError(Exception):
    """What a process that dies in this moment does not do any more."""


def _die() -> None:
    raise _DiedError
