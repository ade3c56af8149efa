"""How often backends are checked, and when a backend counts as down."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from yarl import URL

from beacon_lifecycle import ManualClock
from beacon_router.backends import BackendClient, BackendFault
from beacon_router.service.health import HealthChecks, RecheckTimer
from beacon_router.service.timers import Timers
from tests.integration.router.raw_server import Connection, Handler, server_that


@asynccontextmanager
async def running_timers(clock: ManualClock) -> AsyncIterator[Timers]:
    timers = Timers(clock)
    task = asyncio.ensure_future(timers.run())
    try:
        yield timers
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
async def client() -> AsyncIterator[BackendClient]:
    client = BackendClient()
    yield client
    await client.stop()


def answering(status: str) -> Handler:
    async def handler(connection: Connection) -> None:
        while await connection.request():
            await connection.send(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode())

    return handler


async def test_a_backend_that_stays_down_is_rechecked_once_a_second(client: BackendClient) -> None:
    clock, rechecks = ManualClock(), 0

    def recheck() -> None:
        nonlocal rechecks
        rechecks += 1

    async with server_that(answering("500 No")) as server, running_timers(clock) as timers:
        checks = HealthChecks(
            {"us": URL(server.url)},
            client,
            report=lambda _name, _cause: None,
            recheck=RecheckTimer(timers, recheck).plan,
        )
        for _ in range(11):  # each lost connection of a run causes a check
            await checks.run_once()
        await clock.advance(1)
        assert rechecks == 1
        await checks.run_once()
        await clock.advance(1)
        assert rechecks == 2


@pytest.mark.parametrize(
    ("status", "reported"),
    [("200 OK", [True, True]), ("404 Not Found", [True, True]), ("503 Unavailable", [True, False])],
)
async def test_a_server_error_counts_as_down_when_repeated(
    status: str, reported: list[bool], client: BackendClient
) -> None:
    reports: list[bool] = []
    async with server_that(answering(status)) as server:
        checks = HealthChecks(
            {"us": URL(server.url)},
            client,
            report=lambda _, cause: reports.append(cause is None),
            recheck=lambda: None,
        )
        for _ in range(2):
            await checks.run_once()

    assert reports == reported


async def test_a_backend_may_be_removed_while_checks_begin(client: BackendClient) -> None:
    reports: list[str] = []
    async with server_that(answering("200 OK")) as server:
        urls = {"us": URL(server.url), "eu": URL(server.url)}
        checks = HealthChecks(urls, client, report=lambda name, _: reports.append(name), recheck=lambda: None)
        check = asyncio.ensure_future(checks.run_once())
        await asyncio.sleep(0)
        checks.adopt({"eu": URL(server.url)}, {})
        await check

    assert reports == ["eu"]


async def test_a_refused_connection_counts_as_down_at_once(
    unused_tcp_port: int, client: BackendClient
) -> None:
    causes: list[BackendFault | None] = []
    urls = {"us": URL(f"http://127.0.0.1:{unused_tcp_port}")}
    checks = HealthChecks(urls, client, report=lambda _, cause: causes.append(cause), recheck=lambda: None)
    await checks.run_once()

    reason = "health check: no connection is possible (Connection refused)"
    assert causes == [BackendFault("backend_unreachable", reason)]


async def test_a_fault_is_reported_with_its_cause_at_once(client: BackendClient) -> None:
    causes: list[BackendFault | None] = []
    urls = {"us": URL("http://gpu.invalid/healthz")}
    checks = HealthChecks(urls, client, report=lambda _, cause: causes.append(cause), recheck=lambda: None)
    await checks.run_once()

    assert causes == [BackendFault("dns_failed", "its host name cannot be resolved")]
