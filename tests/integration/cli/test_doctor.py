"""`beacon doctor`: findings, advice, exit codes."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from typer.testing import CliRunner

from beacon_cli import app
from beacon_cli.checks.findings import Finding, Verdict
from beacon_cli.checks.servers import check_postgres, check_redis
from beacon_cli.checks.system import Target, run_checks
from beacon_contracts.credentials import Credentials
from beacon_lifecycle.clock import ManualClock, SystemClock
from tests.integration.client.runner_stub import RunnerStub, document, problem, runner_stub
from tests.integration.runner_router_client.router_stub import RouterStub, router_stub

SHIPPED = Path(__file__).parents[3] / "config" / "beacon.toml"
ME = {"user_id": "user_1", "name": "ada", "tier": "free", "priority": "low", "scopes": ["user"]}
NOWHERE = "127.0.0.1:1"


@pytest.fixture
async def runner() -> AsyncIterator[RunnerStub]:
    async with runner_stub() as one:
        now = datetime.now(UTC).isoformat()
        one.on("GET /readyz", {"ready": True, "parts": {"postgres": "ok", "redis": "ok"}, "at": now})
        one.on("GET /api/v1/me", ME)
        yield one


@pytest.fixture
async def router() -> AsyncIterator[RouterStub]:
    async with router_stub() as one:
        yield one


def target(runner: RunnerStub | None, router: RouterStub | None = None, key: str = "k") -> Target:
    credentials = Credentials(
        runner_url=runner.url if runner else f"http://{NOWHERE}",
        router_url=router.url if router else "",
        user_key=key,
    )
    return Target(credentials, key, {}, SHIPPED)


async def found(looked_at: Target) -> dict[str, Finding]:
    return {finding.name: finding for finding in await run_checks(looked_at, SystemClock())}


@pytest.mark.parametrize(
    ("router_state", "verdict", "said"),
    [
        ({"revision": 5}, Verdict.OK, "5, on all routers"),
        ({"revision": 4}, Verdict.WARNING, "5, not on http://r yet"),
        (
            {"revision": 4, "refused": 5, "errors": ["KEY is not set"]},
            Verdict.FAILED,
            "http://r: KEY is not set",
        ),
    ],
)
async def test_routers_without_the_newest_revision_are_named(
    runner: RunnerStub, router_state: dict[str, Any], verdict: Verdict, said: str
) -> None:
    actor = {"name": "system"}
    newest = {"revision": 5, "created_at": datetime.now(UTC).isoformat(), "actor": actor, "comment": ""}
    runner.on(
        "GET /admin/config", {**newest, "document": {}, "routers": [{"url": "http://r", **router_state}]}
    )
    asked = target(runner)
    asked = replace(asked, credentials=replace(asked.credentials, admin_key="a"))
    finding = (await found(asked))["revision"]
    assert finding.verdict is verdict
    assert said in finding.detail


async def test_a_healthy_system(runner: RunnerStub, router: RouterStub) -> None:
    findings = await found(target(runner, router))
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


async def test_an_unavailable_runner(router: RouterStub) -> None:
    findings = await found(target(None, router))
    assert findings["runner"].verdict is Verdict.FAILED
    assert "Connection refused" in findings["runner"].detail
    assert "beacon up" in findings["runner"].what_to_do
    assert findings["key"].verdict is Verdict.SKIPPED


async def test_a_runner_that_is_not_ready_names_the_failed_part(runner: RunnerStub) -> None:
    runner.answers["GET /readyz"].clear()
    parts = {"postgres": "ok", "migrations": "at 0001, this needs 0002", "redis": "does not answer"}
    runner.on("GET /readyz", document({"ready": False, "parts": parts}, 503))
    findings = await found(target(runner))
    assert findings["runner"].verdict is Verdict.FAILED
    assert findings["runner's postgres"].verdict is Verdict.OK
    assert findings["runner's migrations"].detail == "at 0001, this needs 0002"
    assert "beacon_runner migrate" in findings["runner's migrations"].what_to_do
    assert findings["runner's redis"].verdict is Verdict.FAILED


async def test_a_wrong_key_and_no_key(runner: RunnerStub) -> None:
    assert (await found(target(runner, key="")))["key"].verdict is Verdict.FAILED
    runner.answers["GET /api/v1/me"].clear()
    runner.on("GET /api/v1/me", problem(401, "unknown_key", "this key is unknown"))
    assert (await found(target(runner)))["key"].detail == "this key is unknown"


async def test_a_router_that_does_not_take_the_token(runner: RunnerStub, router: RouterStub) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=403)

    router.next_answers.append(refuse)
    finding = (await found(target(runner, router)))["router"]
    assert finding.verdict is Verdict.FAILED
    assert "BEACON_SERVICE_TOKEN" in finding.what_to_do


@pytest.mark.parametrize(("ahead_s", "words"), [(60, "behind"), (-60, "ahead of")])
async def test_a_clock_with_skew(runner: RunnerStub, ahead_s: int, words: str) -> None:
    clock = ManualClock(start=datetime.now(UTC) - timedelta(seconds=ahead_s))
    findings = {finding.name: finding for finding in await run_checks(target(runner), clock)}
    assert findings["clock"].verdict is Verdict.WARNING
    assert words in findings["clock"].detail


async def test_postgres_is_checked_directly(empty_database_url: str) -> None:
    (finding,) = await check_postgres(empty_database_url)
    assert finding.verdict is Verdict.OK
    (finding,) = await check_postgres(f"postgres://unknown@{NOWHERE}/none")
    assert finding.verdict is Verdict.FAILED
    assert "DATABASE_URL" in finding.what_to_do


async def test_redis_is_checked_directly(redis_url: str) -> None:
    (finding,) = await check_redis(redis_url, SystemClock())
    assert finding.verdict is Verdict.OK
    assert re.match(r"(Valkey|Redis) \d+\.", finding.detail)
    (finding,) = await check_redis(f"redis://{NOWHERE}", SystemClock())
    assert finding.verdict is Verdict.FAILED
    slow = ManualClock(start=datetime.now(UTC) - timedelta(hours=1))
    assert [finding.name for finding in await check_redis(redis_url, slow)] == ["redis", "redis clock"]


def test_a_failed_check_exits_with_1(tmp_path: Path) -> None:
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


def status(**breaker: str) -> dict[str, Any]:
    backend = {"name": "us-1", "region": "US", "slots": 1, "busy": 0, "breaker": breaker}
    numbers = dict.fromkeys(
        ("concurrency", "main", "front", "retry", "completed", "failed", "cancelled", "slots", "busy"), 0
    )
    region = {"region": "US", "healthy": True, "backends": [backend], **numbers}
    totals = dict.fromkeys(("global_retry", "backing_off", "waiting", "running", "held_bytes"), 0)
    return {"regions": {"US": region}, **totals}


@pytest.mark.parametrize(
    ("breaker", "code", "shown"),
    [
        ({"state": "closed", "health_check": "up"}, 0, "all healthy"),
        ({"state": "starting"}, 0, "all healthy"),
        ({"state": "open"}, 1, "us-1 (unavailable: circuit breaker open)"),
        ({"state": "closed", "health_check": "down"}, 1, "us-1 (unavailable: health check failed)"),
    ],
)
def test_an_unusable_backend_sets_the_exit_code(
    served: RunnerStub, tmp_path: Path, breaker: dict[str, str], code: int, shown: str
) -> None:
    result = doctor(served, tmp_path, status(**breaker))
    assert result.exit_code == code, result.stdout
    assert shown in result.stdout


def test_the_admin_option_checks_the_administrators_key(served: RunnerStub, tmp_path: Path) -> None:
    doctor(served, tmp_path, status(state="closed"), "--admin")
    (call,) = served.of("GET /api/v1/me")
    assert call.headers["authorization"] == "Bearer admin-key"


def doctor(served: RunnerStub, home: Path, queues: dict[str, Any], *options: str) -> Any:
    served.on("GET /readyz", {"ready": True, "parts": {}, "at": datetime.now(UTC).isoformat()})
    served.on("GET /api/v1/me", ME)
    served.on("GET /queue/status", queues)
    credentials = {"runner_url": served.url, "router_url": served.url}
    keys = {"user_key": "user-key", "admin_key": "admin-key"}
    (home / "credentials.json").write_text(json.dumps(credentials | keys), encoding="utf-8")
    unset = ("BEACON_RUNNER_URL", "BEACON_API_KEY", "BEACON_ROUTER_URL", "BEACON_ROUTER_URLS")
    environ = dict.fromkeys((*unset, "DATABASE_URL", "REDIS_URL"), "")
    environ |= {"BEACON_HOME": str(home), "BEACON_CONFIG": str(SHIPPED)}
    return CliRunner().invoke(app, [*options, "doctor"], env=environ)
