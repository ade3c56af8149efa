"""Checks a running system from outside; each finding says what is wrong and what to do."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx
from pydantic import AwareDatetime, Field, ValidationError

from beacon_cli.checks.clock_skew import is_skewed, skew_of
from beacon_cli.checks.findings import Finding, Verdict, failed
from beacon_cli.checks.servers import check_postgres, check_redis
from beacon_cli.output.formatting import HEALTHY, backend_health
from beacon_client.advice import advice_for
from beacon_client.runner_http import problem_of, reason_of
from beacon_config import ConfigError, load_config
from beacon_contracts.accounts import Me
from beacon_contracts.configuration import ConfigView
from beacon_contracts.credentials import Credentials
from beacon_contracts.model import ResponseModel
from beacon_contracts.router_status import STARTING, QueueStatus
from beacon_lifecycle.clock import Clock

TIMEOUT_S = 5.0
_NOT_READY = "It becomes ready when all its parts are; the failing parts follow."
_PART_ADVICE = {
    "postgres": "Is the server running, and is the runner's DATABASE_URL right?",
    "migrations": "Run `python -m beacon_runner migrate` with the runner's DATABASE_URL.",
    "redis": "Is the server running, and is the runner's REDIS_URL right? No job is lost meanwhile.",
}


@dataclass(frozen=True, slots=True)
class Target:
    """The system to check; `api_key` is the key to verify."""

    credentials: Credentials
    api_key: str
    environ: Mapping[str, str]
    config: Path


class _Readiness(ResponseModel):
    """The runner's response to /readyz."""

    parts: dict[str, str] = Field(default_factory=dict)
    at: AwareDatetime | None = None


async def run_checks(target: Target, clock: Clock) -> list[Finding]:
    """Every check, each within its own bound; none raises."""
    async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as http:
        checks: Sequence[Callable[[], Awaitable[list[Finding]]]] = (
            lambda: check_config(target),
            lambda: check_runner(target, http, clock),
            lambda: check_key(target, http),
            lambda: check_revision(target, http),
            lambda: check_router(target, http),
            lambda: check_postgres(target.environ.get("DATABASE_URL", "")),
            lambda: check_redis(target.environ.get("REDIS_URL", ""), clock),
        )
        found = await asyncio.gather(*(check() for check in checks))
    return [finding for findings in found for finding in findings]


async def check_config(target: Target) -> list[Finding]:
    try:
        loaded = load_config(target.config, target.environ)
    except ConfigError as error:
        return [
            failed("configuration", str(error), "Correct the file; `beacon config check` reads it again.")
        ]
    summary = f"{target.config}: {len(loaded.regions)} regions, {len(loaded.backends)} backends"
    return [Finding("configuration", Verdict.OK, summary)]


async def check_runner(target: Target, http: httpx.AsyncClient, clock: Clock) -> list[Finding]:
    url = target.credentials.runner_url.rstrip("/")
    sent_at = clock.wall()
    try:
        answer = await http.get(f"{url}/readyz")
    except httpx.HTTPError as error:
        advice = "Start it with `beacon up`, or set BEACON_RUNNER_URL to where it runs."
        return [failed("runner", f"{url} {reason_of(error)}", advice)]
    received_at = clock.wall()
    try:
        readiness = _Readiness.model_validate_json(answer.content)
    except ValidationError:
        readiness = _Readiness()
    return [*_readiness_findings(url, answer, readiness), _clock(readiness.at, sent_at, received_at)]


def _readiness_findings(url: str, answer: httpx.Response, readiness: _Readiness) -> list[Finding]:
    """One line for the runner, and one for each part that its answer names."""
    parts = [
        Finding(f"runner's {name}", Verdict.OK, state)
        if state == "ok"
        else failed(f"runner's {name}", state, _PART_ADVICE.get(name, "Read the runner's log."))
        for name, state in readiness.parts.items()
    ]
    if answer.is_success:
        return [Finding("runner", Verdict.OK, f"{url} is ready"), *parts]
    return [failed("runner", f"{url} responds {answer.status_code}: not ready", _NOT_READY), *parts]


def _clock(theirs: datetime | None, sent_at: datetime, received_at: datetime) -> Finding:
    if theirs is None:
        return Finding("clock", Verdict.SKIPPED, "the runner does not report its time")
    skew_s = skew_of(theirs.timestamp(), sent_at=sent_at.timestamp(), received_at=received_at.timestamp())
    if not is_skewed(skew_s):
        return Finding("clock", Verdict.OK, "agrees with the runner's")
    detail = f"this machine is {abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} the runner"
    return Finding(
        "clock", Verdict.WARNING, detail, "Synchronise the clocks (NTP): `start_by` compares them."
    )


async def check_key(target: Target, http: httpx.AsyncClient) -> list[Finding]:
    key = target.api_key
    if not key:
        return [
            failed("key", "no key is set", "Set BEACON_API_KEY, or BEACON_HOME to where `beacon up` ran.")
        ]
    url = f"{target.credentials.runner_url.rstrip('/')}/api/v1/me"
    try:
        answer = await http.get(url, headers={"authorization": f"Bearer {key}"})
    except httpx.HTTPError:
        return [Finding("key", Verdict.SKIPPED, "the runner does not respond")]
    if answer.is_error:
        problem = problem_of(answer)
        return [failed("key", problem.detail, advice_for(problem))]
    who = Me.model_validate_json(answer.content)
    return [Finding("key", Verdict.OK, f"{who.name}, tier {who.tier}, scopes {', '.join(who.scopes)}")]


async def check_revision(target: Target, http: httpx.AsyncClient) -> list[Finding]:
    """Whether the routers run on the newest revision; only an administrator may know."""
    key = target.credentials.admin_key
    if not key:
        return []
    url = f"{target.credentials.runner_url.rstrip('/')}/admin/config"
    try:
        answer = await http.get(url, headers={"authorization": f"Bearer {key}"})
        view = ConfigView.model_validate_json(answer.content)
    except (httpx.HTTPError, ValidationError):
        return [Finding("revision", Verdict.SKIPPED, "the runner does not say what it runs on")]
    refused = [one for one in view.routers if one.refused == view.revision]
    if refused:
        reasons = "; ".join(f"{one.url}: {', '.join(one.errors)}" for one in refused)
        advice = "Correct it and restart the router, or `beacon config rollback`."
        return [failed("revision", f"{view.revision} cannot be applied: {reasons}", advice)]
    behind = [one.url for one in view.routers if one.revision != view.revision]
    if behind:
        advice = "The relay sends it as soon as they answer."
        return [
            Finding("revision", Verdict.WARNING, f"{view.revision}, not on {', '.join(behind)} yet", advice)
        ]
    return [Finding("revision", Verdict.OK, f"{view.revision}, on all routers")]


async def check_router(target: Target, http: httpx.AsyncClient) -> list[Finding]:
    url, token = target.credentials.router_url.rstrip("/"), target.credentials.service_token
    if not url:
        advice = "Set BEACON_ROUTER_URLS to check it from here."
        return [Finding("router", Verdict.SKIPPED, "its address is unknown", advice)]
    advice = "Start it, or check BEACON_ROUTER_URLS and BEACON_SERVICE_TOKEN."
    try:
        answer = await http.get(
            f"{url}/queue/status", headers={"authorization": f"Bearer {token}"} if token else {}
        )
    except httpx.HTTPError as error:
        return [failed("router", f"{url} {reason_of(error)}", advice)]
    if answer.is_error:
        return [failed("router", f"{url} responds {answer.status_code}", advice)]
    try:
        queues = QueueStatus.model_validate_json(answer.content)
    except ValidationError:
        return [failed("router", f"{url} does not respond with a queue status", advice)]
    return _router_findings(url, queues)


def _router_findings(url: str, queues: QueueStatus) -> list[Finding]:
    line = f"{url}: {queues.waiting} waiting, {queues.running} running"
    router = Finding("router", Verdict.OK, line)
    unusable = [
        f"{backend.name} ({health})"
        for region in queues.regions.values()
        for backend in region.backends
        if (health := backend_health(backend.breaker)) not in (HEALTHY, STARTING)
    ]
    if not unusable:
        return [router, Finding("backends", Verdict.OK, "all healthy")]
    advice = "Check these servers; the router uses them again after a successful probe."
    return [router, failed("backends", f"unusable: {', '.join(unusable)}", advice)]
