"""A relay, a receiver and jobs that end."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from secrets import token_bytes

from aiohttp import web

from beacon_contracts.api_keys import new_api_key
from beacon_contracts.ids import JobId, UserId, WebhookId, new_uuid
from beacon_contracts.jobs import JobState
from beacon_contracts.tiers import JobClass
from beacon_lifecycle import SystemClock
from beacon_runner.domain.jobs.admission import AdmittedJob
from beacon_runner.domain.jobs.commands import CancelDecision, JobVersion
from beacon_runner.domain.jobs.submissions import NewJob
from beacon_runner.domain.webhooks.webhooks import SECRET_BYTES, NewEndpoint, new_secret
from beacon_runner.maintenance.webhook_delivery import PER_ENDPOINT
from beacon_runner.postgres.accounts.users import PostgresUsers
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.jobs.job_commands import PostgresJobCommands
from beacon_runner.postgres.jobs.submissions import PostgresSubmissions
from beacon_runner.postgres.webhooks.endpoints import PostgresWebhooks
from benchmarks.harness.process import ROOT
from benchmarks.harness.servers import RunTarget
from benchmarks.router.processes import TOKEN, free_port, serving

SPEC = {"model": "m", "region": "r", "input": {"prompt": "a cat"}}
QUICK, STALLED = "/quick", "/stalled"


@dataclass
class Receiver:
    """`quick` has the times of requests; requests to `STALLED` are never answered."""

    url: str
    quick: asyncio.Queue[float]
    stalled: asyncio.Semaphore


@dataclass(frozen=True)
class System:
    database: Database
    receiver: Receiver

    async def user(self, path: str) -> UserId:
        """A new user with an endpoint."""
        user = await PostgresUsers(self.database).add(path + new_uuid().hex, "free", new_api_key())
        secret = new_secret(token_bytes(SECRET_BYTES))
        endpoint = NewEndpoint(WebhookId(new_uuid()), user.id, self.receiver.url + path, secret)
        await PostgresWebhooks(self.database).add(endpoint, 1)
        return user.id

    async def submit(self, user: UserId, count: int) -> list[JobId]:
        admitted = AdmittedJob("generation", "", SPEC, 1, 1)
        jobs = [
            NewJob(JobId(new_uuid()), user, "free", JobClass.LOW, user.hex, admitted) for _ in range(count)
        ]
        await PostgresSubmissions(self.database, SystemClock(), 1_000_000).submit(jobs)
        return [job.id for job in jobs]

    async def end(self, job: JobId) -> None:
        version = JobVersion(job, JobState.QUEUED, 1, 0, front=False)
        decision = CancelDecision(at_router=False, refund=False)
        await PostgresJobCommands(self.database, max_router_cancels=1).cancel(version, decision)

    async def latencies_ms(self, user: UserId, count: int) -> list[float]:
        """Each from the start of the transaction that ends a job to the arrival of its request."""
        found = []
        for job in await self.submit(user, count):
            started = time.perf_counter()
            await self.end(job)
            found.append((await self.receiver.quick.get() - started) * 1_000)
        return found

    async def stall(self, user: UserId, waiting: int) -> None:
        """Returns when all requests that may be open to the stalled receiver are."""
        for job in await self.submit(user, PER_ENDPOINT + waiting):
            await self.end(job)
        for _ in range(PER_ENDPOINT):
            await self.receiver.stalled.acquire()


@asynccontextmanager
async def webhook_system(target: RunTarget) -> AsyncIterator[System]:
    port, database = free_port(), Database(target.database_url, size=2)
    relay = serving(
        "relay",
        [sys.executable, "-m", "beacon_runner", "relay"],
        port=port,
        env={
            "BEACON_CONFIG": str(ROOT / "config" / "minimal.toml"),
            "BEACON_FILES_URL": str(target.log.with_suffix(".files")),
            "BEACON_LOG_LEVEL": "warning",
            "BEACON_RUNNER_PORT": str(port),
            "BEACON_SERVICE_TOKEN": TOKEN,
            "BEACON_WEBHOOK_NETWORKS": "127.0.0.0/8",
            "DATABASE_URL": target.database_url,
            "REDIS_URL": target.redis_url,
        },
        log=target.log.with_suffix(".relay.log"),
    )
    await database.open()
    try:
        async with _receiver() as receiver, relay:
            yield System(database, receiver)
    finally:
        await database.close()


@asynccontextmanager
async def _receiver() -> AsyncIterator[Receiver]:
    quick: asyncio.Queue[float] = asyncio.Queue()
    stalled = asyncio.Semaphore(0)

    async def receive(request: web.Request) -> web.Response:
        if request.path == STALLED:
            stalled.release()
            await asyncio.Event().wait()
        quick.put_nowait(time.perf_counter())
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/{path:.*}", receive)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield Receiver(f"http://127.0.0.1:{runner.addresses[0][1]}", quick, stalled)
    finally:
        await runner.cleanup()
