"""Submission over HTTP: to Beacon's API, or to the echo app."""

import json
import time
from collections.abc import Iterator
from itertools import repeat
from typing import Any

from beacon_contracts.accounts import Scope
from beacon_contracts.api_keys import new_api_key
from beacon_runner.postgres.accounts.users import PostgresUsers
from benchmarks.harness.http_load import KeptConnection, load, post
from benchmarks.harness.pickup import measure
from benchmarks.harness.system import options, run, until
from benchmarks.runner.systems.children import address_in, scratch, start
from benchmarks.runner.systems.shipped import MODEL, open_database

PATH = "/api/v1/jobs"
WORKER = "benchmarks.runner.systems.beacon_process"
WARM_UP = 200
UNFINISHED = "SELECT EXISTS (SELECT FROM jobs WHERE finished_at IS NULL)"
COMPLETED = "SELECT count(*) FROM jobs WHERE state = 'completed'"


def job(prompt: str) -> dict[str, Any]:
    return {"kind": "generation", "model": MODEL, "prompt": prompt, "region": "US"}


class Http:
    """Options: `server` (echo; api: the API alone; apart: API and worker; all: one process for both)."""

    async def prepare(self) -> None:
        self._server = options()["server"]
        self._headers: list[tuple[str, str]] = []
        self._ready = scratch("ready")
        if self._server == "echo":
            await start("benchmarks.runner.systems.echo", str(self._ready))
        else:
            self._database = open_database(2)
            await self._database.open()
            self._headers = [("authorization", f"Bearer {await self._new_key()}")]
            await self._start_beacon(options().get("width", "wide"))
        self._url = await address_in(self._ready)
        await self._load(repeat(json.dumps(job("x")).encode(), WARM_UP), 8)

    async def submit(self, count: int, in_flight: int) -> float:
        """Requests per second, one job each."""
        return count / await self._load(repeat(json.dumps(job("x")).encode(), count), in_flight)

    async def submit_batches(self, count: int, in_flight: int, size: int) -> float:
        """Jobs per second, so many in each request."""
        body = json.dumps({"jobs": [job("x")] * size}).encode()
        seconds = await self._load(repeat(body, count // size), in_flight, f"{PATH}/batch")
        return count / seconds

    async def submit_recorded(self, count: int, in_flight: int) -> float:
        """Jobs per second, from the first request until the last result is recorded."""
        started = time.monotonic()
        await self._load(repeat(json.dumps(job("x")).encode(), count), in_flight)
        await until(self._nothing_left, 0.005)
        seconds = time.monotonic() - started
        completed = await self._database.fetchval(COMPLETED)
        if completed != count + WARM_UP:
            raise RuntimeError(f"{completed} of {count + WARM_UP} jobs are completed")
        return count / seconds

    async def _nothing_left(self) -> bool:
        return not await self._database.fetchval(UNFINISHED)

    async def pickup(self, count: int) -> list[float]:
        """Over one kept-alive connection, as the peers use for their servers."""

        async def send(sent: float) -> None:
            body = json.dumps(job(repr(sent))).encode()
            await connection.send(post(self._url, PATH, body, self._headers))

        width = options().get("width", "shipped")
        worker = () if self._server == "all" else (WORKER, "work", width)
        connection = KeptConnection(self._url)
        try:
            return await measure(count, send, *worker)
        finally:
            connection.close()

    async def close(self) -> None:
        if self._server != "echo":
            await self._database.close()

    async def _new_key(self) -> str:
        users, key = PostgresUsers(self._database), new_api_key()
        user, _ = await users.ensure("bench", "admin")
        await users.add_key(user.id, key, [Scope.USER], name="bench")
        return key

    async def _start_beacon(self, width: str) -> None:
        environment = {
            "BEACON_RUNNER_PORT": "0",
            "BEACON_RUNNER_READY_FILE": str(self._ready),
            "BEACON_LOG_LEVEL": "warning",
        }
        if self._server == "all":
            await start(WORKER, "all", width, environment=environment)
            return
        await start("beacon_runner", "api", environment=environment)
        if self._server == "apart":
            await start(WORKER, "work", width)

    async def _load(self, bodies: Iterator[bytes], in_flight: int, path: str = PATH) -> float:
        requests = (post(self._url, path, body, self._headers) for body in bodies)
        return await load(self._url, requests, in_flight)


if __name__ == "__main__":
    run(Http, lambda: None)
