"""Runs the load on the whole system, and reads from the API what it estimated and what happened."""

import asyncio
import os
import re
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from beacon_devstack.home import Home
from beacon_devstack.settings import StackSettings
from beacon_devstack.stack import Stack
from benchmarks.estimates.load import (
    DEAD,
    DEAD_S,
    PAUSED,
    PAUSED_S,
    TIERS,
    Submission,
    disturbances,
    submissions,
)
from benchmarks.harness.process import ROOT

DRAINED_WITHIN_S, POLL_S = 600.0, 1.0
ENDED = {"completed", "partial", "failed", "cancelled"}


@dataclass(frozen=True, slots=True)
class Measured:
    """One job: what the 202 response said, and the seconds until its first inference was on a GPU."""

    kind: str
    tier: str
    at_s: float
    model: str
    position: int | None
    estimated_s: float | None
    reason: str | None
    actual_s: float
    disturbed: bool
    """A class was paused or a region killed after the estimate and before the job's first inference."""


async def measure(seconds: float, rate: float, seed: int) -> list[Measured]:
    with tempfile.TemporaryDirectory(prefix="beacon-estimates-", ignore_cleanup_errors=True) as path:
        config = Path(path) / "beacon.toml"
        config.write_text(_without_quotas((ROOT / "config" / "beacon.toml").read_text("utf-8")), "utf-8")
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BEACON_")},
            "BEACON_CONFIG": str(config),
            "BEACON_RUNNER_PORT": "0",
            "BEACON_ROUTER_PORT": "0",
            "GPUSIM_JITTER": "0.3",
        }
        settings = StackSettings.from_environment(environment)
        async with Stack(Home.at(Path(path) / "home"), settings) as stack, httpx.AsyncClient() as http:
            http.base_url, http.timeout = httpx.URL(stack.credentials.runner_url), httpx.Timeout(60.0)
            return await _Run(stack, http).measure(submissions(seconds, rate, seed), seconds)


class _Run:
    def __init__(self, stack: Stack, http: httpx.AsyncClient) -> None:
        self._stack = stack
        self._http = http
        self._admin = {"Authorization": f"Bearer {stack.credentials.admin_key}"}
        self._disturbed_s: list[float] = []
        self._users: list[dict[str, str]] = []
        self._accepted: list[tuple[Submission, dict[str, Any]]] = []

    async def measure(self, load: list[Submission], seconds: float) -> list[Measured]:
        for number, tier in enumerate(TIERS):
            user = {"name": f"{tier}-{number}", "tier": tier}
            made = await self._http.post("/admin/users", json=user, headers=self._admin)
            self._users.append({"Authorization": f"Bearer {made.raise_for_status().json()['key']}"})
        began = time.monotonic()
        self._disturbed_s = [at_s for at_s, _ in disturbances(seconds)]
        async with asyncio.TaskGroup() as tasks:
            for at_s, what in disturbances(seconds):
                tasks.create_task(self._disturb(began + at_s, what))
            for one in load:
                await asyncio.sleep(max(0.0, began + one.at_s - time.monotonic()))
                tasks.create_task(self._submit(one))
        return [await self._measured(*one) for one in self._accepted]

    async def _submit(self, one: Submission) -> None:
        headers = self._users[one.user]
        answer = await self._http.post("/api/v1/jobs", json=one.body, headers=headers)
        self._accepted.append((one, answer.raise_for_status().json()))

    async def _disturb(self, at: float, what: str) -> None:
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        if what == "pause":
            await self._http.post(f"/admin/queues/{PAUSED}/pause", headers=self._admin)
            await asyncio.sleep(PAUSED_S)
            await self._http.post(f"/admin/queues/{PAUSED}/resume", headers=self._admin)
        else:
            await self._stack.processes[DEAD].kill()
            await asyncio.sleep(DEAD_S)
            await self._stack.processes[DEAD].start()

    async def _measured(self, one: Submission, accepted: dict[str, Any]) -> Measured:
        job = await self._ended(accepted["job_id"])
        starts = [_started(execution) for execution in job["executions"] if execution["finished_at"]]
        actual_s = max(0.0, (min(starts) - datetime.fromisoformat(job["created_at"])).total_seconds())
        return Measured(
            kind=one.kind,
            tier=TIERS[one.user],
            at_s=one.at_s,
            model=job["executions"][0]["model"],
            position=accepted["position"],
            estimated_s=accepted["estimated_wait_s"],
            reason=accepted["no_estimate_reason"],
            actual_s=actual_s,
            disturbed=any(one.at_s < at_s < one.at_s + actual_s for at_s in self._disturbed_s),
        )

    async def _ended(self, job_id: str) -> Any:
        async with asyncio.timeout(DRAINED_WITHIN_S):
            while True:
                answer = await self._http.get(f"/api/v1/jobs/{job_id}", headers=self._admin)
                job = answer.raise_for_status().json()
                if job["status"] in ENDED:
                    return job
                await asyncio.sleep(POLL_S)


def _started(execution: dict[str, Any]) -> datetime:
    """When its (last) run was on a GPU: its end without the seconds of load and run."""
    timing, ended = execution["timing"], datetime.fromisoformat(execution["finished_at"])
    seconds = timing["load_s"] + timing["run_s"] if timing else 0.0
    return datetime.fromtimestamp(ended.timestamp() - seconds, ended.tzinfo)


def _without_quotas(config: str) -> str:
    """The shipped configuration without limits on the number of jobs: the load is not to be refused."""
    return re.sub(r"(?m)^(pending_jobs|jobs_per_hour|executions_per_job) = [\d_]+\n", "", config)
