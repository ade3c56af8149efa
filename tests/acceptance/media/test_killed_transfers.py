"""Router, worker and Postgres are killed at each point of an output: one file, and no other bytes remain."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from beacon_contracts.files import output_object_name
from beacon_contracts.ids import FILE, FileId, decode_id
from beacon_files import open_store
from beacon_lifecycle import ManualClock
from beacon_runner.maintenance.file_cleanup import ORPHAN_AGE, OWNER_OBJECT, FileCleanup
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.files import PostgresFiles
from tests.acceptance.tiers.users import ENDED_STATES
from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.stack import RunningStack, running_stack
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until
from tests.integration.router.raw_server import Connection, server_that

pytestmark = [pytest.mark.stack, pytest.mark.timeout(480)]

IMAGE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 12_000
HALF = len(IMAGE) // 2
CONFIG = """\
[backends.gpu]
dialect = "http"
url = "{url}/run"
models = ["image"]

[runner]
lease_s = 2
heartbeat_s = 0.5
job_retry_delays_s = [0.2]

[router]
breaker_open_s = 0.5
health_every_s = 0.5
"""


@dataclass
class Gpu:
    """Answers an image: the first half at once, the rest when it may."""

    half: asyncio.Event = field(default_factory=asyncio.Event)
    rest: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, connection: Connection) -> None:
        while (line := await connection.request()) is not None:
            head = b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: %d\r\n\r\n"
            if "/healthz" in line:
                await connection.send(head % 2 + b"ok")
                continue
            await connection.send(head % len(IMAGE) + IMAGE[:HALF])
            self.half.set()
            await self.rest.wait()
            await connection.send(IMAGE[HALF:])

    def hold(self) -> None:
        self.half.clear()
        self.rest.clear()


@dataclass
class TransferHarness:
    stack: RunningStack
    gpu: Gpu
    http: httpx.AsyncClient

    @property
    def files(self) -> Path:
        return self.stack.home.path / "files"

    async def kill(self, *names: str) -> None:
        for name in names:
            await asyncio.to_thread(self.stack.kill, name)

    async def start(self, *names: str) -> None:
        for name in names:
            await asyncio.to_thread(self.stack.start, name)

    def freeze(self, name: str) -> None:
        os.kill(self.stack.pid(name), signal.SIGSTOP)

    def objects(self) -> set[str]:
        """The complete ones: the name of a file that is being written has a number sign."""
        found = [path for path in self.files.rglob("*") if path.is_file() and "#" not in path.name]
        return {str(path.relative_to(self.files)) for path in found}

    async def stored(self) -> None:
        """Send the rest, and wait until the router has stored it."""
        before = self.objects()
        self.gpu.rest.set()
        await until(lambda: self.objects() - before, "the image is stored")

    async def submit(self) -> str:
        body = {"kind": "generation", "model": "image", "prompt": "a cat"}
        return str((await self.http.post("/api/v1/jobs", json=body)).raise_for_status().json()["job_id"])

    async def ended(self, job: str) -> Any:
        async def over() -> Any:
            answer = await self.http.get(f"/api/v1/jobs/{job}")
            found = answer.json() if answer.status_code == 200 else {}
            return found if found.get("status") in ENDED_STATES else None

        return await until(over, f"{job} is over")


async def router_during_the_transfer(harness: TransferHarness) -> None:
    await harness.kill("router")
    harness.gpu.rest.set()
    await harness.start("router")


async def worker_during_the_transfer(harness: TransferHarness) -> None:
    await harness.kill("runner")
    await harness.start("runner")
    harness.gpu.rest.set()


async def postgres_during_the_transfer(harness: TransferHarness) -> None:
    await harness.kill("postgres")
    harness.gpu.rest.set()
    await harness.start("postgres")


async def both_during_the_transfer(harness: TransferHarness) -> None:
    await harness.kill("router", "runner")
    harness.gpu.rest.set()
    await harness.start("router", "runner")


async def router_before_the_worker_knows_the_result(harness: TransferHarness) -> None:
    harness.freeze("runner")
    await harness.stored()
    await harness.kill("router")
    await harness.start("router")
    os.kill(harness.stack.pid("runner"), signal.SIGCONT)


async def worker_before_it_knows_the_result(harness: TransferHarness) -> None:
    harness.freeze("runner")
    await harness.stored()
    await harness.kill("runner")
    await harness.start("runner")


async def postgres_before_the_result_is_recorded(harness: TransferHarness) -> None:
    await harness.kill("postgres")
    await harness.stored()
    await harness.start("postgres")


async def worker_before_it_has_recorded_the_result(harness: TransferHarness) -> None:
    await harness.kill("postgres")
    await harness.stored()
    await harness.kill("runner")
    await harness.start("postgres", "runner")


POINTS: list[Callable[[TransferHarness], Awaitable[None]]] = [
    router_during_the_transfer,
    worker_during_the_transfer,
    postgres_during_the_transfer,
    both_during_the_transfer,
    router_before_the_worker_knows_the_result,
    worker_before_it_knows_the_result,
    postgres_before_the_result_is_recorded,
    worker_before_it_has_recorded_the_result,
]


async def test_an_output_is_one_file_whatever_is_killed_and_no_bytes_are_left(tmp_path: Path) -> None:
    gpu, config = Gpu(), tmp_path / "beacon.toml"
    async with server_that(gpu.answer) as server:
        config.write_text(CONFIG.format(url=server.url), encoding="utf-8")
        async with scene_of(gpu, config) as harness:
            jobs = [await survived(harness, point) for point in POINTS]
            await check_records(harness, jobs)


@asynccontextmanager
async def scene_of(gpu: Gpu, config: Path) -> AsyncIterator[TransferHarness]:
    running = running_stack(BEACON_CONFIG=str(config))
    stack = await asyncio.to_thread(running.__enter__)
    try:
        async with httpx.AsyncClient(
            base_url=stack.url("runner"), headers=stack.user, timeout=WAIT_TIMEOUT_S, verify=NO_TLS
        ) as http:
            yield TransferHarness(stack, gpu, http)
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


async def survived(harness: TransferHarness, point: Callable[[TransferHarness], Awaitable[None]]) -> str:
    """A job during whose output the processes are killed."""
    harness.gpu.hold()
    parts = set(harness.files.rglob("*#*"))
    job = await harness.submit()
    await harness.gpu.half.wait()
    await until(lambda: set(harness.files.rglob("*#*")) - parts, "a part of the image is written")
    await point(harness)
    assert (await harness.ended(job))["status"] == "completed", point.__name__
    return job


async def check_records(harness: TransferHarness, jobs: list[str]) -> None:
    """One record for each job, which has its bytes; what else was stored is removed after a day."""
    database = Database(harness.stack.database_url, size=1)
    await database.open()
    try:
        rows = await database.fetch("SELECT id, job_id, size, sha256 FROM files")
        outputs = [(await harness.ended(job))["executions"][0]["output"] for job in jobs]
        recorded = {FileId(decode_id(FILE, output["file"])) for output in outputs}
        assert len(recorded) == len(rows) == len(POINTS)
        assert {row["id"] for row in rows} == recorded
        assert {(row["size"], row["sha256"]) for row in rows} == {(len(IMAGE), sha256(IMAGE).digest())}
        for output in outputs:
            assert (await harness.http.get(output["url"])).content == IMAGE
        me = (await harness.http.get("/api/v1/me")).json()
        assert me["limits"]["storage_bytes"]["used"] == len(IMAGE) * len(jobs)

        later = ManualClock(datetime.now(UTC) + 2 * ORPHAN_AGE)
        store = open_store(str(harness.files))
        removed = await FileCleanup(PostgresFiles(database), store, later, orphans_every_s=-1).run_once()
        left = {str(path.relative_to(harness.files)) for path in harness.files.rglob("*") if path.is_file()}
        assert left == {output_object_name(file) for file in recorded} | {OWNER_OBJECT}
        assert removed.count > 0  # parts that killed routers have left
    finally:
        await database.close()
