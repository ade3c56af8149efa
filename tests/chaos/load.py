"""Users who submit jobs of every kind and retry while the system is unavailable."""

import asyncio
import random
import time
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from uuid import uuid4

import httpx

from tests.fixtures.no_tls import NO_TLS

USERS = 4
PAUSE_S = 0.2
CHANGED_MIND = "to be cancelled"
WITH_FILE = "with a file"
UPLOAD_BYTES = 300_000  # more than one piece
UNDER_WAY = (httpx.TransportError,)


@dataclass
class Load:
    url: str
    admin_key: str
    webhook_url: str
    seed: int
    name: str = field(default_factory=lambda: f"chaos-{uuid4().hex[:12]}")
    accepted: list[str] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
    sent_at: dict[str, float] = field(default_factory=dict)
    """When each accepted job was sent for the first time."""
    keys: list[str] = field(default_factory=list)
    uploads: dict[str, str] = field(default_factory=dict)
    """The checksums of the uploads that were acknowledged, by file."""

    async def enroll(self) -> None:
        """Users of a tier without limits; each has a webhook for all ends of jobs."""
        async with self._http() as http:
            for number in range(USERS):
                new = {"name": f"{self.name}-{number}", "tier": "admin"}
                headers = {"Authorization": f"Bearer {self.admin_key}"}
                made = await http.post("/admin/users", json=new, headers=headers)
                self.keys.append(made.raise_for_status().json()["key"])
                webhook = {"url": f"{self.webhook_url}/{self.name}"}
                own = {"Authorization": f"Bearer {self.keys[-1]}"}
                (await http.post("/api/v1/webhooks", json=webhook, headers=own)).raise_for_status()

    async def submit(self, count: int, *, more_of: int = 0) -> None:
        """Submit random jobs, others with each `more_of`; returns when each has been accepted."""
        rng = random.Random(self.seed + more_of)
        await self.submit_all([_job(rng, number) for number in range(count)])

    async def submit_all(self, bodies: list[dict[str, Any]]) -> None:
        """A few concurrently."""
        async with self._http() as http, asyncio.TaskGroup() as group:
            places = asyncio.Semaphore(8)
            for number, body in enumerate(bodies):
                await places.acquire()
                task = group.create_task(self._submit(http, self.keys[number % USERS], body))
                task.add_done_callback(lambda _: places.release())

    async def _submit(self, http: httpx.AsyncClient, key: str, body: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": uuid4().hex}
        sent_at = time.monotonic()
        if body.get("name") == WITH_FILE:
            file = await self._upload(http, key, body["input"]["prompt"])
            body = {**body, "input": {**body["input"], "image": {"file": file}}}
        answer = await _answered(http, "/api/v1/jobs", headers, json=body)
        assert answer.status_code in (200, 202), answer.text
        job_id = answer.json()["job_id"]
        self.accepted.append(job_id)
        self.sent_at[job_id] = sent_at
        if body.get("name") == CHANGED_MIND:
            await self._cancel(http, key, job_id)

    async def _upload(self, http: httpx.AsyncClient, key: str, seed: str) -> str:
        """Repeated until it is acknowledged: earlier tries may have stored the file, too."""
        data = random.Random(seed).randbytes(UPLOAD_BYTES)
        headers = {"Authorization": f"Bearer {key}"}
        answer = await _answered(http, "/api/v1/files", headers, content=data)
        assert answer.status_code == 201, answer.text
        file = str(answer.json()["id"])
        self.uploads[file] = sha256(data).hexdigest()
        return file

    async def profiles(self) -> list[Any]:
        """What the API says about each user."""
        async with self._http() as http:
            answers = [
                await http.get("/api/v1/me", headers={"Authorization": f"Bearer {key}"}) for key in self.keys
            ]
        return [answer.raise_for_status().json() for answer in answers]

    async def _cancel(self, http: httpx.AsyncClient, key: str, job_id: str) -> None:
        """Sent once: only a response shows whether it was received."""
        try:
            answer = await http.post(
                f"/api/v1/jobs/{job_id}/cancel", headers={"Authorization": f"Bearer {key}"}
            )
        except UNDER_WAY:
            return
        if answer.status_code < 300:
            self.cancelled.add(job_id)

    def _http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=30, trust_env=False, verify=NO_TLS)


async def _answered(
    http: httpx.AsyncClient, path: str, headers: dict[str, str], **body: Any
) -> httpx.Response:
    """The response to a POST that is repeated while the API is unavailable."""
    while True:
        try:
            answer = await http.post(path, headers=headers, **body)
        except UNDER_WAY:
            await asyncio.sleep(PAUSE_S)  # the client's pause between tries, not a test's wait
            continue
        if answer.status_code != 503:
            return answer
        await asyncio.sleep(PAUSE_S)


def _job(rng: random.Random, number: int) -> dict[str, Any]:
    prompt = f"question {number}"
    match rng.randrange(7):
        case 0:
            return {
                "kind": "matrix",
                "questions": [{"id": "a", "prompt": prompt}, {"id": "b", "prompt": prompt}],
                "models": ["llama3.2-1b", "qwen2.5-1.5b"],
                "regions": ["US", "EU", "ASIA"],
            }
        case 2:
            return {"kind": "generation", "model": "llama3.2-1b", "prompt": prompt, "name": CHANGED_MIND}
        case 1:
            return {"kind": "pipeline", "feature": "text_only", "input": {"prompt": prompt}}
        case 3:
            return {
                "kind": "generation",
                "model": "flux",
                "prompt": prompt,
                "params": {"width": 64, "height": 64},
            }
        case 4:
            given = {"prompt": f"{prompt} of {rng.random()}"}
            params = {"width": 64, "height": 64}
            return {
                "kind": "generation",
                "model": "flux",
                "name": WITH_FILE,
                "input": given,
                "params": params,
            }
        case _:
            region = rng.choice(["US", "EU", "ASIA"])
            return {"kind": "generation", "model": "llama3.2-1b", "prompt": prompt, "region": region}
