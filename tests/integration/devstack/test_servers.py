"""The embedded servers: special paths, crashes, concurrent servers, foreign processes."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest
from redis.asyncio import Redis

from beacon_devstack.errors import AlreadyRunningError, DevstackError, PortTakenError
from beacon_devstack.home import Home
from beacon_devstack.processes.child import Child, ChildSpec
from beacon_devstack.secret_store import Secrets
from beacon_devstack.servers.account import Account, give, server_account
from beacon_devstack.servers.initdb import initialise
from beacon_devstack.servers.postgres import FAST, EmbeddedPostgres
from beacon_devstack.servers.redis import EmbeddedRedis
from beacon_devstack.servers.running import ServerSettings, running_servers
from tests.fixtures.scratch import scratch_home
from tests.fixtures.waiting import until

HOLDER = Path(__file__).with_name("hold_servers.py")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another account")


@pytest.fixture
def home() -> Iterator[Home]:
    with scratch_home() as made:
        yield Home.at(made.path / "a home with späces")


@pytest.fixture
async def postgres(home: Home) -> AsyncIterator[EmbeddedPostgres]:
    async with EmbeddedPostgres(home, password="a-password", settings=FAST) as server:
        yield server


@pytest.fixture
async def redis(home: Home) -> AsyncIterator[EmbeddedRedis]:
    async with EmbeddedRedis(home, password="a-password") as server:
        yield server


async def query(url: str, statement: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def until_gone(pids: list[int]) -> None:
    await until(lambda: not any(running(pid) for pid in pids), "they are gone")


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_data_survives_a_restart(home: Home, postgres: EmbeddedPostgres, redis: EmbeddedRedis) -> None:
    await query(postgres.url, "CREATE TABLE kept AS SELECT 42 AS answer")
    async with Redis.from_url(redis.url) as client:
        await client.set("kept", "42")
    for server in (postgres, redis):
        await server.stop()
        await server.start()
    assert await query(postgres.url, "SELECT answer FROM kept") == 42
    async with Redis.from_url(redis.url) as client:
        assert await client.get("kept") == b"42"


async def test_a_killed_server_restarts_with_its_data_and_port(
    postgres: EmbeddedPostgres, redis: EmbeddedRedis
) -> None:
    await query(postgres.url, "CREATE TABLE kept AS SELECT 42 AS answer")
    addresses = postgres.url, redis.url
    for server in (postgres, redis):
        await server.kill()
        await server.start()
    assert (postgres.url, redis.url) == addresses
    assert await query(postgres.url, "SELECT answer FROM kept") == 42


async def test_the_shipped_settings_are_durable(home: Home) -> None:
    async with running_servers(home, Secrets.of(home), ServerSettings()) as servers:
        assert await query(servers.database_url, "SHOW fsync") == "on"
        assert await query(servers.database_url, "SHOW synchronous_commit") == "on"
        assert (await query(servers.database_url, "SHOW server_version")).startswith("18.")
        async with Redis.from_url(servers.redis_url) as client:
            kept = await client.config_get("append*")
        assert kept["appendonly"] == "yes"
        assert kept["appendfsync"] == "everysec"


async def test_a_connection_needs_the_password(postgres: EmbeddedPostgres, redis: EmbeddedRedis) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(postgres.url.replace("a-password", "a-guess"))
    async with Redis.from_url(redis.url.replace("a-password", "a-guess")) as client:
        with pytest.raises(Exception, match=r"WRONGPASS|invalid username-password"):
            await client.ping()
    for server in (postgres, redis):
        everybody_reads = " ".join(psutil.Process(server.child.pid).cmdline())
        assert server.program in everybody_reads
        assert "a-password" not in everybody_reads


async def test_two_homes_run_concurrently(home: Home, postgres: EmbeddedPostgres) -> None:
    with scratch_home() as neighbour:
        async with EmbeddedPostgres(neighbour, password="another", settings=FAST) as other:
            await query(other.url, "CREATE TABLE theirs ()")
            assert await query(postgres.url, "SELECT to_regclass('theirs') IS NULL")
    assert await query(postgres.url, "SELECT 1") == 1


async def test_given_addresses_start_no_server(home: Home) -> None:
    given = ServerSettings.from_environment(
        {"DATABASE_URL": "postgresql://db.test/x", "REDIS_URL": "redis://r.test/1"}
    )
    async with running_servers(home, Secrets.of(home), given) as servers:
        assert servers.embedded == ()
        assert (servers.database_url, servers.redis_url) == ("postgresql://db.test/x", "redis://r.test/1")
        assert not list(home.logs.iterdir())


@pytest.mark.parametrize("server", [EmbeddedPostgres, EmbeddedRedis])
async def test_a_taken_port_is_reported_with_its_process_and_the_setting(
    home: Home, server: type[EmbeddedPostgres] | type[EmbeddedRedis]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        with pytest.raises(PortTakenError) as caught:
            await server(home, password="a-password", port=port).start()
    assert f"port {port} on 127.0.0.1 is taken" in str(caught.value)
    assert f"(pid {os.getpid()})" in str(caught.value)
    assert server.port_setting in str(caught.value)


@pytest.mark.parametrize("server", [EmbeddedPostgres, EmbeddedRedis])
async def test_a_port_that_another_process_took_is_replaced(
    home: Home, monkeypatch: pytest.MonkeyPatch, server: type[EmbeddedPostgres] | type[EmbeddedRedis]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = stranger.getsockname()[1]
        start = Child.start
        starts = 0

        async def with_the_port_just_taken(child: Child) -> None:
            nonlocal starts
            if child.spec.pid_file.stem in ("postgres", "redis"):
                starts += 1
            await start(child)

        offered = iter([taken])
        monkeypatch.setattr(
            "beacon_devstack.servers.embedded_server.choose_port", lambda *_, **__: next(offered, free_port())
        )
        monkeypatch.setattr(Child, "start", with_the_port_just_taken)
        async with server(home, password="a-password") as found:
            assert found.port != taken
            assert starts == 2


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


async def test_a_stale_pid_file_of_another_process_is_ignored(home: Home, postgres: EmbeddedPostgres) -> None:
    await postgres.stop()
    stale = postgres.data / "postmaster.pid"
    stale.write_text(f"{os.getpid()}\n{postgres.data}\n1\n{postgres.port}\n\n\n", encoding="utf-8")
    await postgres.start()
    assert await query(postgres.url, "SELECT 1") == 1


async def test_a_server_left_by_an_earlier_run_is_ended_first(home: Home, postgres: EmbeddedPostgres) -> None:
    left_behind = postgres.child.pid
    successor = EmbeddedPostgres(home, password="a-password", settings=FAST)
    async with successor:
        await until_gone([left_behind])
        assert await query(successor.url, "SELECT 1") == 1


async def test_an_incomplete_data_directory_is_created_again(home: Home) -> None:
    unfinished = home.path / "postgres.new"
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18\n", encoding="ascii")
    async with EmbeddedPostgres(home, password="a-password", settings=FAST) as server:
        assert await query(server.url, "SELECT 1") == 1
    assert not unfinished.exists()


async def test_data_of_another_version_is_refused_with_a_reason(home: Home) -> None:
    (home.path / "postgres").mkdir()
    (home.path / "postgres" / "PG_VERSION").write_text("16\n", encoding="ascii")
    with pytest.raises(DevstackError, match="was made by PostgreSQL 16, this is 18"):
        await EmbeddedPostgres(home, password="a-password").start()


async def test_a_failed_initdb_names_its_log(home: Home) -> None:
    account = server_account(home.path / "postgres", component="postgres")
    with pytest.raises(DevstackError, match="data directory could not be created") as caught:
        await initialise(home, home.path / "postgres", "", account)  # an empty password is refused
    assert caught.value.log == home.log_of("postgres")
    assert not (home.path / "postgres").exists()


async def held_home(home: Home, **how: Any) -> tuple[asyncio.subprocess.Process, dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(HOLDER), str(home.path), stdout=subprocess.PIPE, start_new_session=True, **how
    )
    assert process.stdout is not None
    return process, json.loads(await process.stdout.readline())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
async def test_servers_end_with_a_killed_owner_and_the_home_is_free(home: Home) -> None:
    owner, report = await held_home(home)
    await query(report["database_url"], "CREATE TABLE kept AS SELECT 42 AS answer")
    owner.kill()
    await owner.wait()
    await until_gone(report["pids"])
    again, report = await held_home(home)
    assert await query(report["database_url"], "SELECT answer FROM kept") == 42
    again.terminate()
    assert await again.wait() == 0
    await until_gone(report["pids"])


async def test_a_home_starts_again_after_all_processes_were_killed(home: Home) -> None:
    owner, report = await held_home(home)
    await query(report["database_url"], "CREATE TABLE kept AS SELECT 42 AS answer")
    family = [psutil.Process(pid) for pid in (owner.pid, *report["pids"])]
    everyone = [member for process in family for member in (process, *process.children(recursive=True))]
    for member in everyone:
        if member.is_running():
            member.send_signal(signal.SIGKILL)
    await owner.wait()
    await until_gone([member.pid for member in everyone])
    again, report = await held_home(home)
    assert await query(report["database_url"], "SELECT answer FROM kept") == 42
    again.terminate()
    assert await again.wait() == 0


async def test_a_second_owner_is_refused_with_the_address_of_the_first(home: Home) -> None:
    first = {"pid": 4711, "portal_url": "http://127.0.0.1:8000/"}
    with home.locked(first), pytest.raises(AlreadyRunningError) as caught, home.locked({}):
        pytest.fail("two owners of one home")
    assert "4711" in str(caught.value)
    assert "http://127.0.0.1:8000/" in str(caught.value)
    with home.locked({}):
        pass


@AS_ROOT
async def test_root_starts_servers_that_are_not_root(
    postgres: EmbeddedPostgres, redis: EmbeddedRedis
) -> None:
    for server in (postgres, redis):
        assert psutil.Process(server.child.pid).uids().real != 0
    assert _capabilities(postgres.child.pid) == 0


@AS_ROOT
async def test_root_can_use_a_home_in_a_private_directory(home: Home) -> None:
    closed = home.path / "closed"
    closed.mkdir(mode=0o700)
    async with running_servers(Home.at(closed / "home"), Secrets.fresh(), ServerSettings()) as servers:
        assert await query(servers.database_url, "SELECT 1") == 1
        async with Redis.from_url(servers.redis_url) as client:
            assert await client.ping()
        assert servers.postgres is not None
        # Enough to pass through closed directories, and nothing else.
        assert _capabilities(servers.postgres.child.pid) == 1 << 2


def as_other_user(home: Home) -> Child:
    """The holder under an ordinary account."""
    account = Account(65534, 65534)
    give(home.path, account)
    for directory in (home.run, home.logs):
        directory.rmdir()
    return Child(
        ChildSpec(
            name="holder",
            argv=[sys.executable, str(HOLDER), str(home.path)],
            log=home.path.parent / "holder.log",
            pid_file=home.path.parent / "holder.pid",
            environment={"HOME": "/nonexistent"},
            account=account,
            must_reach=[HOLDER, Path(sys.base_prefix)],
        )
    )


@AS_ROOT
async def test_servers_of_an_ordinary_user_run_under_that_account(home: Home) -> None:
    holder = as_other_user(home)
    await holder.start()
    await until(lambda: "database_url" in holder.since_start() or not holder.running, "the holder says where")
    report = json.loads(holder.since_start())
    assert await query(report["database_url"], "SELECT 1") == 1
    assert {psutil.Process(pid).uids().real for pid in report["pids"]} == {65534}
    await holder.stop()
    assert holder.returncode == 0
    await until_gone(report["pids"])


@AS_ROOT
async def test_data_of_another_account_is_refused_to_an_ordinary_user(home: Home) -> None:
    (home.path / "postgres").mkdir()
    holder = as_other_user(home)
    await holder.start()
    assert await holder.wait() != 0
    assert "belongs to uid 0, not to you; set BEACON_HOME" in holder.since_start()


def _capabilities(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    raise AssertionError("no capabilities in /proc")
