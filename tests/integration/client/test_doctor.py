"""`beacon doctor`: what it finds, what it advises, how it ends."""

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from typer.testing import CliRunner

from beacon_client.checkup import Patient, examine
from beacon_client.cli import app
from beacon_client.findings import Finding, Verdict
from beacon_client.servers_checkup import check_postgres, check_redis
from beacon_contracts.credentials import Credentials
from beacon_lifecycle.clock import ManualClock, SystemClock
from tests.integration.client.small_runner import SmallRunner, document, problem, small_runner
from tests.integration.runner_router_client.router_stub import RouterStub, router_stub

SHIPPED = Path(__file__).parents[3] / "config" / "beacon.toml"
ME = {"user_id": "user_1", "name": "ada", "tier": "free", "priority": "low", "scopes": ["user"]}
NOWHERE = "127.0.0.1:1"


@pytest.fixture
async def runner() -> AsyncIterator[SmallRunner]:
    async with small_runner() as one:
        now = datetime.now(UTC).isoformat()
        one.on("GET /readyz", {"ready": True, "parts": {"postgres": "ok", "redis": "ok"}, "at": now})
        one.on("GET /api/v1/me", ME)
        yield one


@pytest.fixture
async def router() -> AsyncIterator[RouterStub]:
    async with router_stub() as one:
        yield one


def patient(runner: SmallRunner | None, router: RouterStub | None = None, key: str = "k") -> Patient:
    credentials = Credentials(
        runner_url=runner.url if runner else f"http://{NOWHERE}",
        router_url=router.url if router else "",
        user_key=key,
    )
    return Patient(credentials, {}, SHIPPED)


async def found(looked_at: Patient) -> dict[str, Finding]:
    return {finding.name: finding for finding in await examine(looked_at, SystemClock())}


async def test_a_healthy_system(runner: SmallRunner, router: RouterStub) -> None:
    findings = await found(patient(runner, router))
    verdicts = {name: finding.verdict for name, finding in findings.items()}
    assert verdicts == {
        "configuration": Verdict.OK,
        "runner": Verdict.OK,
        "runner's postgres": Verdict.OK,
        "runner's redis": Verdict.OK,
        "clock": Verdict.OK,
        "key": Verdict.OK,
        "router": Verdict.OK,
        "backends": Verdict.OK,
        "postgres": Verdict.SKIPPED,
        "redis": Verdict.SKIPPED,
    }


async def test_a_runner_that_is_away(router: RouterStub) -> None:
    findings = await found(patient(None, router))
    assert findings["runner"].verdict is Verdict.FAILED
    assert "Connection refused" in findings["runner"].detail
    assert "beacon up" in findings["runner"].what_to_do
    assert findings["key"].verdict is Verdict.SKIPPED


async def test_a_runner_that_is_not_ready_says_which_part(runner: SmallRunner) -> None:
    runner.answers["GET /readyz"].clear()
    parts = {"postgres": "ok", "migrations": "at 0001, this needs 0002", "redis": "does not answer"}
    runner.on("GET /readyz", document({"ready": False, "parts": parts}, 503))
    findings = await found(patient(runner))
    assert findings["runner"].verdict is Verdict.FAILED
    assert findings["runner's postgres"].verdict is Verdict.OK
    assert findings["runner's migrations"].detail == "at 0001, this needs 0002"
    assert "beacon_runner migrate" in findings["runner's migrations"].what_to_do
    assert findings["runner's redis"].verdict is Verdict.FAILED


async def test_a_wrong_key_and_no_key(runner: SmallRunner) -> None:
    assert (await found(patient(runner, key="")))["key"].verdict is Verdict.FAILED
    runner.answers["GET /api/v1/me"].clear()
    runner.on("GET /api/v1/me", problem(401, "unknown_key", "this key is unknown"))
    assert (await found(patient(runner)))["key"].detail == "this key is unknown"


async def test_a_router_that_does_not_take_the_token(runner: SmallRunner, router: RouterStub) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=403)

    router.next_answers.append(refuse)
    finding = (await found(patient(runner, router)))["router"]
    assert finding.verdict is Verdict.FAILED
    assert "BEACON_SERVICE_TOKEN" in finding.what_to_do


@pytest.mark.parametrize(("ahead_s", "words"), [(60, "behind"), (-60, "ahead of")])
async def test_a_clock_that_goes_wrong(runner: SmallRunner, ahead_s: int, words: str) -> None:
    clock = ManualClock(start=datetime.now(UTC) - timedelta(seconds=ahead_s))
    findings = {finding.name: finding for finding in await examine(patient(runner), clock)}
    assert findings["clock"].verdict is Verdict.WARNING
    assert words in findings["clock"].detail


async def test_postgres_is_asked_directly(empty_database_url: str) -> None:
    (finding,) = await check_postgres(empty_database_url)
    assert finding.verdict is Verdict.OK
    (finding,) = await check_postgres(f"postgres://nobody@{NOWHERE}/none")
    assert finding.verdict is Verdict.FAILED
    assert "DATABASE_URL" in finding.what_to_do


async def test_redis_is_asked_directly(redis_url: str) -> None:
    (finding,) = await check_redis(redis_url, SystemClock())
    assert finding.verdict is Verdict.OK
    assert re.match(r"(Valkey|Redis) \d+\.", finding.detail)
    (finding,) = await check_redis(f"redis://{NOWHERE}", SystemClock())
    assert finding.verdict is Verdict.FAILED
    slow = ManualClock(start=datetime.now(UTC) - timedelta(hours=1))
    assert [finding.name for finding in await check_redis(redis_url, slow)] == ["redis", "redis clock"]


def test_the_command_ends_with_1_when_something_is_wrong(tmp_path: Path) -> None:
    environ = {
        "BEACON_HOME": str(tmp_path),
        "BEACON_CONFIG": str(SHIPPED),
        "BEACON_RUNNER_URL": f"http://{NOWHERE}",
        "BEACON_API_KEY": "k",
        "BEACON_ROUTER_URLS": "",
        "BEACON_ROUTER_URL": "",
        "DATABASE_URL": "",
        "REDIS_URL": "",
    }
    result = CliRunner().invoke(app, ["doctor", "--json"], env=environ)
    assert result.exit_code == 1
    findings: list[dict[str, Any]] = json.loads(result.stdout)
    assert [finding["name"] for finding in findings if finding["verdict"] == "failed"] == ["runner"]
    shown = CliRunner().invoke(app, ["doctor"], env=environ)
    assert "Start it with `beacon up`" in shown.stdout
