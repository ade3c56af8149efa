"""Servers for the tests: one pair per run, one database on each per test."""

import gc
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from redis import Redis

from tests.fixtures.choice import ServerChoiceError
from tests.fixtures.databases import Databases, databases
from tests.fixtures.redis_databases import RedisDatabases, shares
from tests.fixtures.server_pair import ServerPair, server_pair
from tests.fixtures.stack import RunningStack, running_stack

RUN_INPUT = "beacon_servers"
GARBAGE = 20_000  # new objects until a collection; the default of 700 doubled the time to make an application
WAITING = {"acceptance", "browser"}  # folders of tests of the whole system

# Examples have no time limit, because the machine may be busy.
# Every run uses the same examples; --hypothesis-profile=explore draws new ones.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("explore"), derandomize=True)
settings.load_profile("same")


class RunServers:
    """The pair of this run, started at its first use."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._pair: ServerPair | None = None

    def pair(self) -> ServerPair:
        if self._pair is None:
            self._pair = self._running.enter_context(server_pair(os.environ))
        return self._pair

    def close(self) -> None:
        self._running.close()


RUN_SERVERS = pytest.StashKey[RunServers]()


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    config.stash[RUN_SERVERS] = RunServers()
    if config.getoption("dist", "no") != "no":
        try:
            config.stash[RUN_SERVERS].pair()
        except ServerChoiceError as error:
            raise pytest.UsageError(str(error)) from error


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two more than processors: tests of the whole system compute for a third of their time."""
    return (os.cpu_count() or 1) + 2


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under xdist, alternate files whose tests wait with files whose tests compute; waiting ones first."""
    if not hasattr(config, "workerinput"):
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = [tests for file, tests in files.items() if not WAITING.isdisjoint(file.parts)]
    computing = [tests for file, tests in files.items() if WAITING.isdisjoint(file.parts)]
    pairs = zip_longest(waiting, computing, fillvalue=list[pytest.Item]())
    items[:] = [item for pair in pairs for tests in pair for item in tests]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Imported modules and collected tests live to the end: exclude them from garbage collection.

    FastAPI caches the endpoints of 46 applications, half a million objects: look through them rarely.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE)
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Under xdist the controller owns the pair and passes its addresses to the workers."""
    node.workerinput[RUN_INPUT] = asdict(node.config.stash[RUN_SERVERS].pair())


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN_SERVERS in config.stash:
        config.stash[RUN_SERVERS].close()


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> ServerPair:
    """The Postgres and the Valkey of this run."""
    given = getattr(request.config, "workerinput", {}).get(RUN_INPUT)
    if given:
        return ServerPair(**given)
    try:
        return request.config.stash[RUN_SERVERS].pair()
    except ServerChoiceError as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)


@pytest.fixture(scope="session")
def test_databases(servers: ServerPair) -> Iterator[Databases]:
    with databases(servers.database_url) as made:
        yield made


@pytest.fixture(scope="session")
def template(test_databases: Databases, servers: ServerPair) -> str:
    """The name of a migrated database to clone."""
    test_databases.ensure_template(servers.template)
    return servers.template


@pytest.fixture
def database_url(test_databases: Databases, template: str) -> Iterator[str]:
    """A migrated database for this test."""
    with test_databases.clone(template) as url:
        yield url


@pytest.fixture
def empty_database_url(test_databases: Databases) -> Iterator[str]:
    """An empty database for this test."""
    with test_databases.clone("template0") as url:
        yield url


@pytest.fixture(scope="session")
def redis_databases(servers: ServerPair, worker_id: str) -> RedisDatabases:
    with Redis.from_url(servers.redis_url) as client:
        total = int(client.config_get("databases")["databases"])
    worker = 0 if worker_id == "master" else int(worker_id.removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return RedisDatabases(servers.redis_url, shares(total, worker, workers), may_flush=servers.redis_is_ours)


@pytest.fixture
def redis_url(redis_databases: RedisDatabases) -> Iterator[str]:
    """An empty Valkey database for this test."""
    with redis_databases.lease() as url:
        yield url


@pytest.fixture(scope="module")
def stack() -> Iterator[RunningStack]:
    """The whole system as separate processes, shared by the tests of a module."""
    with running_stack() as running:
        yield running
