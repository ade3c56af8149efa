"""Relays as processes: woken when a job ends, and killed during a delivery."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from beacon_contracts.api_keys import new_api_key
from beacon_contracts.ids import WebhookId, new_uuid
from beacon_runner.domain.webhooks.webhooks import NewEndpoint, new_secret
from beacon_runner.postgres.accounts.users import PostgresUsers
from beacon_runner.postgres.database import Database
from beacon_runner.postgres.listener import PostgresListener
from beacon_runner.postgres.webhooks.endpoints import PostgresWebhooks
from tests.fixtures.module_process import ModuleProcess
from tests.fixtures.waiting import until, within_timeout
from tests.fixtures.webhook_receiver import webhook_receiver
from tests.integration.runner_loops.processes import CONFIG, Process
from tests.integration.runner_store.harness import StoreHarness

KILL_LISTENERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'beacon-listener' AND datname = current_database()
"""
SECRET = new_secret(b"x" * 32)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[StoreHarness]:
    database = Database(database_url, size=5)
    await database.open()
    yield StoreHarness(database)
    await database.close()


@contextmanager
def relay(name: str, folder: Path, database_url: str, redis_url: str) -> Iterator[Process]:
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "BEACON_CONFIG": str(CONFIG),
        "BEACON_FILES_URL": str(folder / "files"),
        "BEACON_RUNNER_PORT": "0",
        "BEACON_WEBHOOK_NETWORKS": "127.0.0.0/8",
        "PATH": "/usr/bin",
    }
    log_file = folder / f"{name}.log"
    started = ModuleProcess("beacon_runner", "relay", environment=environment, log_file=log_file)
    process = Process(name, log_file, started)
    try:
        yield process
    finally:
        process.end()


async def cancelled_job(store: StoreHarness, url: str) -> WebhookId:
    """The end of a job, with an endpoint for it."""
    user = (await PostgresUsers(store.database).add("anna", "free", new_api_key())).id
    endpoint = NewEndpoint(WebhookId(new_uuid()), user, url, SECRET)
    await PostgresWebhooks(store.database).add(endpoint, 10)
    await store.cancel(await store.submit(user=user), user)
    return endpoint.id


async def deliveries(store: StoreHarness, webhook: WebhookId) -> list[Any]:
    found = await PostgresWebhooks(store.database).deliveries(webhook, None, 10)
    return [(one.state, len(one.attempts)) for one in found]


async def test_a_listener_reconnects(database_url: str, store: StoreHarness) -> None:
    notified = asyncio.Event()
    listener = PostgresListener(database_url, "webhooks", notified.set)
    await listener.start()
    try:
        async with within_timeout("the first connection"):
            await notified.wait()
        for statement in ("SELECT pg_notify('webhooks', '')", KILL_LISTENERS):
            notified.clear()
            await store.database.execute(statement)
            async with within_timeout(statement):
                await notified.wait()
    finally:
        await listener.stop()


async def test_a_delivery_survives_a_killed_relay(
    store: StoreHarness, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with webhook_receiver() as receiver:
        receiver.blocked.add("/hook")
        webhook = await cancelled_job(store, f"{receiver.url}/hook")
        with relay("first", tmp_path, database_url, redis_url) as first:
            async with within_timeout("the first relay sends"):
                await receiver.wait_for(1)
            first.send(signal.SIGKILL)
            await first.exited()
        assert await deliveries(store, webhook) == [("pending", 0)]
        await store.database.execute("UPDATE webhook_deliveries SET due_at = now()")  # the lease ends
        receiver.blocked.clear()
        with relay("second", tmp_path, database_url, redis_url):
            async with within_timeout("the second relay sends"):
                await receiver.wait_for(2)

            async def recorded() -> bool:
                return await deliveries(store, webhook) == [("delivered", 1)]

            await until(recorded, "the delivery is recorded")
        before, after = receiver.received
        assert before.id == after.id
        assert before.verified(SECRET) == after.verified(SECRET)
