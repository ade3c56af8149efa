"""The API without an external priority service, with one that answers, and with one that hangs."""

import asyncio
import json
from collections.abc import Iterator
from itertools import cycle, islice

from beacon_contracts.accounts import Scope
from beacon_contracts.api_keys import new_api_key
from beacon_runner.postgres.accounts.users import PostgresUsers
from benchmarks.harness.http_load import load, post
from benchmarks.harness.system import options, serve
from benchmarks.runner.systems.children import address_in, scratch, start
from benchmarks.runner.systems.shipped import MODEL, open_database

PATH = "/api/v1/jobs"
BODY = json.dumps({"kind": "generation", "model": MODEL, "prompt": "x", "region": "US"}).encode()
ANSWER = b'{"priority": "high"}'
REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
WARM_UP = 200


class Submitter:
    """Options: `service` (none, answers or hangs), `users`."""

    async def prepare(self) -> None:
        chosen, ready = options(), scratch("ready")
        environment = {
            "BEACON_RUNNER_PORT": "0",
            "BEACON_RUNNER_READY_FILE": str(ready),
            "BEACON_LOG_LEVEL": "error",
        }
        if chosen["service"] != "none":
            self._hangs = chosen["service"] == "hangs"
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            port = self._server.sockets[0].getsockname()[1]
            environment["PRIORITY_API_URL"] = f"http://127.0.0.1:{port}"
        self._keys = await _new_keys(chosen["users"] + 1)
        await start("beacon_runner", "api", environment=environment)
        self._url = await address_in(ready)
        await load(self._url, self._requests(self._keys[:1], WARM_UP), 8)

    async def submit(self, count: int, in_flight: int) -> list[float]:
        """The seconds that each submission took; new users submit round-robin."""
        took: list[float] = []
        await load(self._url, self._requests(self._keys[1:], count), in_flight, took)
        return took

    async def close(self) -> None:
        """The processes end with this one."""

    def _requests(self, keys: list[str], count: int) -> Iterator[bytes]:
        requests = [post(self._url, PATH, BODY, [("authorization", f"Bearer {key}")]) for key in keys]
        return islice(cycle(requests), count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                if self._hangs:
                    await reader.read()  # until the client disconnects
                    return
                writer.write(REPLY % (len(ANSWER), ANSWER))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def _new_keys(count: int) -> list[str]:
    database = open_database(2)
    await database.open()
    try:
        users, keys = PostgresUsers(database), [new_api_key() for _ in range(count)]
        for number, key in enumerate(keys):
            user, _ = await users.ensure(f"bench-{number}", "admin")
            await users.add_key(user.id, key, [Scope.USER], name="bench")
        return keys
    finally:
        await database.close()


if __name__ == "__main__":
    serve(Submitter())
