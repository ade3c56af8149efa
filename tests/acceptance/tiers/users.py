"""Users of every tier and their requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

from tests.fixtures.stack import RunningStack
from tests.fixtures.waiting import until

ENDED_STATES = ("completed", "partial", "failed", "cancelled")


@dataclass
class UserSession:
    http: httpx.AsyncClient
    url: str
    headers: dict[str, str]
    user_id: str = ""

    async def request(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self.http.request(method, self.url + path, json=body, headers=self.headers)

    async def submit(self, body: dict[str, Any]) -> str:
        answer = await self.request("POST", "/api/v1/jobs", body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["job_id"])

    async def get(self, path: str) -> Any:
        return (await self.request("GET", path)).raise_for_status().json()

    async def job(self, job_id: str) -> Any:
        return await self.get(f"/api/v1/jobs/{job_id}")

    async def events(self, job_id: str) -> list[str]:
        page = await self.get(f"/api/v1/jobs/{job_id}/events")
        return [event["type"] for event in page["events"]]

    async def done(self, job_id: str) -> Any:
        """Wait until the job has ended."""

        async def over() -> Any:
            job = await self.job(job_id)
            return job if job["status"] in ENDED_STATES else None

        return await until(over, f"{job_id} is over")

    async def when(self, job_id: str, **wanted: Any) -> Any:
        """Wait until the job has these fields."""

        async def so() -> Any:
            job = await self.job(job_id)
            return job if {name: job[name] for name in wanted} == wanted else None

        return await until(so, f"{job_id} has {wanted}")

    async def waits_at_router(self, job_id: str) -> Any:
        """The job if it waits at the router."""
        job = await self.job(job_id)
        return job if job["progress"]["queued"] and job["position"] is not None else None

    async def runs(self, job_id: str, stage: int = 0) -> Any:
        """Wait until an execution of the stage is on a GPU."""
        return await self.when(job_id, status="processing", stage=stage, position=None, estimated_wait_s=0.0)

    async def waits_at_position(self, job_id: str, position: int, stage: int = 0) -> Any:
        """Wait until it is at this position of the router."""
        wanted = {"status": "queued", "stage": stage, "position": position}

        async def so() -> Any:
            job = await self.job(job_id)
            there = job["progress"]["queued"] > 0 and job["progress"]["running"] == 0
            return job if there and {name: job[name] for name in wanted} == wanted else None

        return await until(so, f"{job_id} is at position {position} of the router")


@dataclass
class UserFactory:
    stack: RunningStack
    http: httpx.AsyncClient
    users: list[UserSession] = field(default_factory=list)

    @property
    def operator(self) -> UserSession:
        return UserSession(self.http, self.stack.url("runner"), self.stack.admin)

    async def new(self, tier: str, credit: int = 0) -> UserSession:
        made = await self.operator.request(
            "POST", "/admin/users", {"name": f"{tier}-{uuid4()}", "tier": tier}
        )
        user = made.raise_for_status().json()
        if credit:
            await self.operator.request("POST", f"/admin/users/{user['id']}/credit", {"amount": credit})
        headers = {"Authorization": f"Bearer {user['key']}"}
        self.users.append(UserSession(self.http, self.stack.url("runner"), headers, user["id"]))
        return self.users[-1]

    async def end(self) -> None:
        """Cancel what is left, so that no run of a test delays those of the next."""
        await self.http.delete(f"{self.stack.url('gpusim-us')}/control/faults")
        await self.release()
        for user in self.users:
            body = {"disabled": True, "jobs": "cancel"}
            (await self.operator.request("POST", f"/admin/users/{user.user_id}", body)).raise_for_status()
        credentials = self.stack.credentials
        headers = {"Authorization": f"Bearer {credentials.service_token}"}
        router = UserSession(self.http, credentials.router_url, headers)

        async def idle() -> bool:
            queues = await router.get("/queue/status")
            return not any(queues[name] for name in ("waiting", "running", "backing_off"))

        await until(idle, "the router is idle")

    async def fault(self, **fault: Any) -> None:
        answer = await self.http.post(f"{self.stack.url('gpusim-us')}/control/faults", json=fault)
        answer.raise_for_status()

    async def hold(self, model: str) -> None:
        """Runs of the model in US do not end until they are released."""
        await self.fault(kind="hold", model=model)

    async def release(self, most: int | None = None) -> None:
        """Held runs complete: the oldest few, or all, also later ones."""
        params = {} if most is None else {"most": most}
        answer = await self.http.post(f"{self.stack.url('gpusim-us')}/control/release", params=params)
        answer.raise_for_status()

    @asynccontextmanager
    async def paused(self, *classes: str) -> AsyncIterator[None]:
        for name in classes:
            await self.operator.request("POST", f"/admin/queues/{name}/pause")
        try:
            yield
        finally:
            for name in classes:
                await self.operator.request("POST", f"/admin/queues/{name}/resume")

    async def workers_have(self, jobs: int) -> None:
        async def so() -> bool:
            return bool((await self.operator.get("/admin/runtime/stats"))["leases"] == jobs)

        await until(so, f"the workers have {jobs} jobs")

    async def calls(self, **filters: Any) -> list[dict[str, Any]]:
        """The calls that the GPUs of US accepted."""
        answer = await self.http.get(f"{self.stack.url('gpusim-us')}/control/ledger", params=filters)
        return [call for call in answer.json()["calls"] if call["outcome"] != "refused"]
