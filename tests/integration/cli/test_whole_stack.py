"""Clients and command line against the real system, as separate processes."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from beacon_cli import app
from beacon_client import Beacon, BeaconError, RunnerClient
from beacon_contracts.events import EventType
from beacon_contracts.ids import new_uuid
from beacon_contracts.jobs import JobState
from tests.fixtures.stack import RunningStack
from tests.fixtures.waiting import WAIT_TIMEOUT_S, within_timeout

pytestmark = pytest.mark.stack

SHIPPED = Path(__file__).parents[3] / "config" / "beacon.toml"
MATRIX = {
    "kind": "matrix",
    "name": "two by two",
    "questions": [{"id": "sky", "prompt": "Why is it blue?"}, {"id": "sum", "prompt": "1 + 1?"}],
    "models": ["llama3.2-1b", "mistral-7b"],
    "regions": ["us-east", "EU"],
}
PIPELINE = {"kind": "pipeline", "feature": "full_pipeline", "input": {"prompt": "a city"}}

Cli = Callable[..., Any]


def environ(stack: RunningStack) -> dict[str, str]:
    names = ("BEACON_RUNNER_URL", "BEACON_API_KEY", "BEACON_ROUTER_URL", "BEACON_ROUTER_URLS")
    return {"BEACON_HOME": str(stack.home.path), "BEACON_CONFIG": str(SHIPPED), **dict.fromkeys(names, "")}


@pytest.fixture
def beacon(stack: RunningStack) -> Cli:
    def run(*arguments: str, code: int = 0, stdin: str | None = None, **env: str) -> Any:
        result = CliRunner().invoke(app, list(arguments), env={**environ(stack), **env}, input=stdin)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
async def client(stack: RunningStack) -> AsyncIterator[RunnerClient]:
    async with RunnerClient.from_environment(environ(stack)) as one:
        yield one


def test_five_lines_of_python_run_a_job(stack: RunningStack) -> None:
    with Beacon.from_environment(environ(stack)) as client:
        job = client.submit(MATRIX)
        events = [event.type for event in client.watch(job.job_id)]
        finished = client.job(job.job_id)
    assert events[0] is EventType.JOB_QUEUED
    assert events[-1] is EventType.JOB_COMPLETE
    assert events.count(EventType.EXECUTION_COMPLETE) == 8
    assert {execution.region for execution in finished.executions} == {"US", "EU"}
    assert finished.status is JobState.COMPLETED


def test_submit_watch_and_list_from_the_terminal(beacon: Cli) -> None:
    shown = beacon(
        "submit", "-q", "Why?", "-m", "llama3.2-1b", "-r", "US", "-r", "EU", "--name", "cli", "-w"
    ).stdout
    assert "JOB_COMPLETE" in shown
    listed = json.loads(beacon("jobs", "--status", "completed", "--json").stdout)
    (job,) = [one for one in listed if one["name"] == "cli"]
    answers = beacon("job", job["job_id"], "--answers").stdout
    assert answers.count("✓") == 2
    execution = json.loads(beacon("job", job["job_id"], "--json").stdout)["executions"][0]["id"]
    assert "us-1" in beacon("execution", execution).stdout
    assert "llama3.2-1b" in beacon("models").stdout
    assert "prompt_enhancer → fast_chat_llm" in beacon("features").stdout
    assert "ASIA" in beacon("regions").stdout
    assert "user" in beacon("me").stdout


def test_the_command_is_installed(stack: RunningStack) -> None:
    command = Path(sys.executable).with_name("beacon")
    run = subprocess.run(
        [command, "submit", "-", "--watch", "--json"],
        input=json.dumps(PIPELINE).encode(),
        env={**os.environ, **environ(stack)},
        capture_output=True,
        timeout=WAIT_TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()
    events = [json.loads(line) for line in run.stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["data"]["step"] for event in events if event["type"] == "STEP_COMPLETE"] == [
        "prompt_enhancer",
        "fast_chat_llm",
        "image_gen",
        "model_3d_gen",
    ]


def test_a_refusal_names_the_field(beacon: Cli) -> None:
    result = beacon("submit", "-p", "x", "-m", "gpt-9", code=2)
    assert "model" in result.stderr
    assert "gpt-9" in result.stderr
    assert "job" in beacon("job", "job_00000000000000000000000000", code=3).stderr
    assert "BEACON_API_KEY" in beacon("jobs", BEACON_API_KEY="wrong", code=4).stderr
    assert beacon("queues", BEACON_API_KEY=_user_key(beacon), code=4).stderr


def _user_key(beacon: Cli) -> str:
    name = f"user-{new_uuid().hex}"
    return str(json.loads(beacon("users", "add", name, "--json").stdout)["key"])


async def test_the_same_idempotency_key_is_the_same_job(client: RunnerClient) -> None:
    key = new_uuid().hex
    first = await client.submit(MATRIX, idempotency_key=key)
    again = await client.submit(MATRIX, idempotency_key=key)
    assert again.job_id == first.job_id
    with pytest.raises(BeaconError) as refused:
        await client.submit(PIPELINE, idempotency_key=key)
    assert refused.value.status == 409
    await client.wait(first.job_id)


async def test_a_batch_is_accepted_whole_or_refused(client: RunnerClient) -> None:
    generation = {"kind": "generation", "model": "llama3.2-1b", "prompt": "x", "name": f"b{new_uuid().hex}"}
    with pytest.raises(BeaconError) as refused:
        await client.submit_batch([generation, {**generation, "model": "none"}])
    assert any(wrong.field.startswith("jobs[1]") for wrong in refused.value.problem.errors or ())
    assert generation["name"] not in [job.name async for job in client.jobs()]
    accepted = await client.submit_batch([generation, generation])
    for job in accepted:
        assert (await client.wait(job.job_id)).status is JobState.COMPLETED


def test_a_paused_class_is_reported_and_a_skip_moves_to_the_front(beacon: Cli) -> None:
    tier_class = json.loads(beacon("me", "--json").stdout)["priority"]
    beacon("queues", "pause", tier_class)
    try:
        submitted = beacon("submit", "-m", "llama3.2-1b", "-p", "later", "--json").stdout
        job = json.loads(submitted)["job_id"]
        why = json.loads(beacon("why", job, "--json").stdout)
        assert why["paused"] is True
        assert why["summary"]
        cancelled = json.loads(beacon("submit", "-m", "llama3.2-1b", "-p", "never", "--json").stdout)[
            "job_id"
        ]
        assert "cancelled" in beacon("cancel", cancelled).stdout
        beacon("skip", cancelled, code=7)
        beacon("skip", job, code=6)
        user = json.loads(beacon("me", "--json").stdout)["user_id"]
        beacon("users", "credit", user, "1")
        assert json.loads(beacon("skip", job, "--json").stdout)["price_paid"] == 1
    finally:
        beacon("queues", "resume", tier_class)
    assert "JOB_COMPLETE" in beacon("watch", job).stdout
    assert "JOB_CANCELLED" in beacon("watch", cancelled, code=1).stdout


def test_users_keys_and_scopes(beacon: Cli) -> None:
    name = f"ada-{new_uuid().hex}"
    made = json.loads(beacon("users", "add", name, "--tier", "premium", "--json").stdout)
    assert json.loads(beacon("me", "--json", BEACON_API_KEY=made["key"]).stdout)["tier"] == "premium"
    assert "creator" in beacon("users", "tier", name, "creator").stdout
    assert json.loads(beacon("users", "credit", name, "7", "--json").stdout)[0]["credit"] == 7
    key = json.loads(beacon("keys", "add", name, "--name", "ci", "--json").stdout)
    beacon("me", BEACON_API_KEY=key["key"])
    beacon("keys", "revoke", name, key["id"])
    beacon("me", BEACON_API_KEY=key["key"], code=4)
    assert "ci" in beacon("keys", "list", name).stdout
    kept = json.loads(beacon("keys", "list", name, "--json").stdout)
    (first,) = (one["id"] for one in kept if one["name"] == "first")
    fresh = json.loads(beacon("keys", "rotate", name, first, "--json").stdout)["key"]
    beacon("me", BEACON_API_KEY=fresh)
    beacon("me", BEACON_API_KEY=made["key"], code=4)
    beacon("users", "disable", name)
    beacon("me", BEACON_API_KEY=fresh, code=4)


def test_webhooks_and_the_audit_log(beacon: Cli) -> None:
    added = json.loads(
        beacon("webhooks", "add", "http://127.0.0.1:9/", "--event", "job.failed", "--json").stdout
    )
    assert added["secret"].startswith("whsec_")
    rotated = json.loads(beacon("webhooks", "rotate", added["id"], "--json").stdout)
    assert rotated["secret"] != added["secret"]
    assert "disabled by its user" in beacon("webhooks", "disable", added["id"]).stdout
    assert "enabled" in beacon("webhooks", "enable", added["id"]).stdout
    assert "job.partial" in beacon("webhooks", "change", added["id"], "--event", "job.partial").stdout
    sent = json.loads(beacon("webhooks", "test", added["id"], "--json").stdout)[0]
    assert sent["id"] in beacon("webhooks", "deliveries", added["id"]).stdout
    assert "webhook.test" in beacon("webhooks", "replay", added["id"], sent["id"]).stdout
    assert added["id"] in beacon("webhooks", "list").stdout
    beacon("webhooks", "delete", added["id"])
    assert added["id"] not in beacon("webhooks", "list").stdout
    entries = json.loads(beacon("audit", "--target", added["id"], "--json").stdout)
    assert [entry["action"] for entry in reversed(entries)] == [
        "webhook.created",
        "webhook.secret_rotated",
        "webhook.changed",
        "webhook.changed",
        "webhook.changed",
        "webhook.deleted",
    ]
    assert "whsec_" not in beacon("audit").stdout


async def test_a_watch_survives_a_restart_of_the_runner(stack: RunningStack, client: RunnerClient) -> None:
    accepted = await client.submit(PIPELINE)
    seen: list[int] = []
    async with within_timeout("the job is over"):
        async for event in client.watch(accepted.job_id):
            seen.append(event.seq)
            if event.type is EventType.STEP_COMPLETE and event.data.get("step") == "prompt_enhancer":
                await asyncio.to_thread(stack.kill, "runner")
                await asyncio.to_thread(stack.start, "runner")
        finished = await client.job(accepted.job_id)
    assert seen == list(range(1, len(seen) + 1))
    assert finished.status is JobState.COMPLETED


async def test_doctor_names_the_router_while_it_is_stopped(stack: RunningStack) -> None:
    await asyncio.to_thread(stack.kill, "router")
    assert "router" in await _failures(stack)
    await asyncio.to_thread(stack.start, "router")
    assert await _failures(stack) == []


async def _failures(stack: RunningStack) -> list[str]:
    result = await asyncio.to_thread(CliRunner().invoke, app, ["doctor", "--json"], env=environ(stack))
    return [finding["name"] for finding in json.loads(result.stdout) if finding["verdict"] == "failed"]
