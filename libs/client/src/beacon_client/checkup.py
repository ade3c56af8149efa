"""Looks at a running system from outside and says what is wrong and what to do about it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx
from pydantic import AwareDatetime, Field, ValidationError

from beacon_client.advice import advice_for
from beacon_client.findings import Finding, Verdict, failed
from beacon_client.runner_http import problem_of
from beacon_client.servers_checkup import check_postgres, check_redis
from beacon_client.skew import is_skewed, skew_of
from beacon_client.transport import open_transport, reason_of
from beacon_config import ConfigError, load_config
from beacon_contracts.accounts import Me
from beacon_contracts.credentials import Credentials
from beacon_contracts.model import ResponseModel
from beacon_contracts.router_status import QueueStatus
from beacon_lifecycle.clock import Clock

TIMEOUT_S = 5.0
_NOT_READY = "It gets ready by itself when its parts are; those that are not follow."
_PART_ADVICE = {
    "postgres": "Is the server running, and is the runner's DATABASE_URL right?",
    "migrations": "Run `python -m beacon_runner migrate` with the runner's DATABASE_URL.",
    "redis": "Is the server running, and is the runner's REDIS_URL right? No job is lost meanwhile.",
}


@dataclass(frozen=True, slots=True)
class Patient:
    """The system that is looked at, as the environment and the credentials describe it."""

    credentials: Credentials
    environ: Mapping[str, str]
    config: Path


class _Told(ResponseModel):
    """What the runner says of itself at /readyz."""

    parts: dict[str, str] = Field(default_factory=dict)
    at: AwareDatetime | None = None


async def examine(patient: Patient, clock: Clock) -> list[Finding]:
    """Every check, each within its own bound; none raises."""
    transport = open_transport()
    async with httpx.AsyncClient(transport=transport, timeout=TIMEOUT_S, trust_env=False) as http:
        checks: Sequence[Callable[[], Awaitable[list[Finding]]]] = (
            lambda: check_config(patient),
            lambda: check_runner(patient, http, clock),
            lambda: check_key(patient, http),
            lambda: check_router(patient, http),
            lambda: check_postgres(patient.environ.get("DATABASE_URL", "")),
            lambda: check_redis(patient.environ.get("REDIS_URL", ""), clock),
        )
        found = await asyncio.gather(*(check() for check in checks))
    return [finding for findings in found for finding in findings]


async def check_config(patient: Patient) -> list[Finding]:
    try:
        loaded = load_config(patient.config, patient.environ)
    except ConfigError as error:
        return [
            failed("configuration", str(error), "Correct the file; `beacon config check` reads it again.")
        ]
    summary = f"{patient.config}: {len(loaded.regions)} regions, {len(loaded.backends)} backends"
    return [Finding("configuration", Verdict.OK, summary)]


async def check_runner(patient: Patient, http: httpx.AsyncClient, clock: Clock) -> list[Finding]:
    url = patient.credentials.runner_url.rstrip("/")
    asked = clock.wall()
    try:
        answer = await http.get(f"{url}/readyz")
    except httpx.HTTPError as error:
        advice = "Start it with `beacon up`, or set BEACON_RUNNER_URL to where it runs."
        return [failed("runner", f"{url} {reason_of(error)}", advice)]
    answered = clock.wall()
    try:
        told = _Told.model_validate_json(answer.content)
    except ValidationError:
        told = _Told()
    return [*_readiness(url, answer, told), _clock(told.at, asked, answered)]


def _readiness(url: str, answer: httpx.Response, told: _Told) -> list[Finding]:
    """One line for the runner, and one for each part that its answer names."""
    parts = [
        Finding(f"runner's {name}", Verdict.OK, said)
        if said == "ok"
        else failed(f"runner's {name}", said, _PART_ADVICE.get(name, "Look at the runner's log."))
        for name, said in told.parts.items()
    ]
    if answer.is_success:
        return [Finding("runner", Verdict.OK, f"{url} is ready"), *parts]
    return [failed("runner", f"{url} answers {answer.status_code}: it is not ready", _NOT_READY), *parts]


def _clock(theirs: datetime | None, asked: datetime, answered: datetime) -> Finding:
    if theirs is None:
        return Finding("clock", Verdict.SKIPPED, "the runner does not say what time it is")
    skew_s = skew_of(theirs.timestamp(), asked=asked.timestamp(), answered=answered.timestamp())
    if not is_skewed(skew_s):
        return Finding("clock", Verdict.OK, "agrees with the runner's")
    detail = f"this machine is {abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} the runner"
    return Finding(
        "clock", Verdict.WARNING, detail, "Synchronise the clocks (NTP): `start_by` compares them."
    )


async def check_key(patient: Patient, http: httpx.AsyncClient) -> list[Finding]:
    key = patient.credentials.user_key
    if not key:
        return [
            failed("key", "there is none", "Set BEACON_API_KEY, or BEACON_HOME to where `beacon up` ran.")
        ]
    url = f"{patient.credentials.runner_url.rstrip('/')}/api/v1/me"
    try:
        answer = await http.get(url, headers={"authorization": f"Bearer {key}"})
    except httpx.HTTPError:
        return [Finding("key", Verdict.SKIPPED, "the runner does not answer")]
    if answer.is_error:
        problem = problem_of(answer)
        return [failed("key", problem.detail, advice_for(problem))]
    who = Me.model_validate_json(answer.content)
    return [Finding("key", Verdict.OK, f"{who.name}, tier {who.tier}, scopes {', '.join(who.scopes)}")]


async def check_router(patient: Patient, http: httpx.AsyncClient) -> list[Finding]:
    url, token = patient.credentials.router_url.rstrip("/"), patient.credentials.service_token
    if not url:
        advice = "Set BEACON_ROUTER_URLS to look at it from here."
        return [Finding("router", Verdict.SKIPPED, "its address is not known", advice)]
    advice = "Start it, or check BEACON_ROUTER_URLS and BEACON_SERVICE_TOKEN."
    try:
        answer = await http.get(f"{url}/queue/status", headers={"authorization": f"Bearer {token}"})
    except httpx.HTTPError as error:
        return [failed("router", f"{url} {reason_of(error)}", advice)]
    if answer.is_error:
        return [failed("router", f"{url} answers {answer.status_code}", advice)]
    try:
        queues = QueueStatus.model_validate_json(answer.content)
    except ValidationError:
        return [failed("router", f"{url} does not answer with a queue status", advice)]
    return _router_findings(url, queues)


def _router_findings(url: str, queues: QueueStatus) -> list[Finding]:
    line = f"{url}: {queues.waiting} waiting, {queues.running} running"
    away = [
        f"{backend.name} ({backend.breaker.state})"
        for region in queues.regions.values()
        for backend in region.backends
        if backend.breaker.state != "closed" or backend.breaker.health_check == "down"
    ]
    if not away:
        return [Finding("router", Verdict.OK, line), Finding("backends", Verdict.OK, "all answer")]
    advice = "Look at the backend; the breaker closes by itself after a probe that works."
    return [
        Finding("router", Verdict.OK, line),
        Finding("backends", Verdict.WARNING, f"not usable now: {', '.join(away)}", advice),
    ]
