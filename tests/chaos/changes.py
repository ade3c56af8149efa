"""Changes of the configuration under load, and the runs that they forbid while they apply."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from beacon_contracts.ids import decode_execution_id, encode_job_id
from tests.acceptance.router.ledger_checks import Call
from tests.chaos.load import PAUSE_S, UNDER_WAY, Load
from tests.chaos.system import CAP, System
from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.waiting import until

MORE_JOBS = 12  # sent while a change applies
SMALL_CAP = 2
LLAMA, QWEN = "llama3.2-1b", "qwen2.5-1.5b"

Matches = Callable[[Call], bool]


@dataclass(frozen=True, slots=True)
class Restriction:
    """From the moment at which all routers have confirmed a change until it was taken back: no call of a job
    that was sent meanwhile starts above the limit."""

    what: str
    matches: Matches
    limit: int
    since: float
    until: float

    def broken_by(self, calls: list[Call], load: Load) -> list[Call]:
        """`calls`: without those of cancelled jobs, which end a moment after their slot was given on."""
        found = [call for call in calls if self.matches(call)]
        return [
            call
            for call in found
            if self.since <= call["arrived"] < self.until
            and load.sent_at.get(_job_of(call), 0.0) >= self.since
            and sum(_overlap(one, call["arrived"]) for one in found) > self.limit
        ]


@dataclass
class Operator:
    """Repeats what was not answered, as an operator would."""

    system: System
    load: Load
    restrictions: list[Restriction] = field(default_factory=list)
    revisions: int = 0

    async def drain(self, backend: str, matches: Matches) -> None:
        async with self._restricted(
            f"{backend} is drained", matches, 0, self._post(f"backends/{backend}/drain")
        ):
            await self._send_jobs()
        await self._post(f"backends/{backend}/resume")

    async def pause(self, model: str) -> None:
        async with self._restricted(
            f"{model} is paused",
            lambda call: bool(call["model"] == model),
            0,
            self._post(f"models/{model}/pause"),
        ):
            await self._send_jobs()
        await self._post(f"models/{model}/resume")

    async def shrink_cap(self) -> None:
        async with self._restricted("the cap", _is_modal, SMALL_CAP, self._set_cap(SMALL_CAP)):
            await self._send_jobs()
        await self._set_cap(CAP)

    async def replace_backend(self) -> None:
        """Another backend of the same GPU does the work of a drained one, and is removed."""
        added = {"name": "us-2", "region": "US", "dialect": "openai", "models": [LLAMA, QWEN], "slots": 2}
        await self._send("POST", "backends", {**added, "url": f"{self.system.url('gpusim-us')}/v1"}, done=409)
        pinned = {"kind": "generation", "model": LLAMA, "prompt": "x", "region": "US", "failover": "pinned"}
        drained = self._post("backends/us-1/drain")
        async with self._restricted(
            "us-1 is drained", lambda call: _is_modal(call) and _is_us(call), 0, drained
        ):
            await self.load.submit_all([pinned] * 4)
            await self._send_jobs()
            await until(lambda: any(map(_of_us_2, self.system.gpu_calls())), "the new backend has work")
        await self._post("backends/us-1/resume")
        async with self._restricted(
            "us-2 is gone", _of_us_2, 0, self._send("DELETE", "backends/us-2", done=404)
        ):
            await self._send_jobs()

    @asynccontextmanager
    async def _restricted(
        self, what: str, matches: Matches, limit: int, change: Awaitable[object]
    ) -> AsyncIterator[None]:
        await change
        await until(self.applied, f"{what}: all routers have confirmed it")
        since = time.monotonic()
        yield
        self.restrictions.append(Restriction(what, matches, limit, since, time.monotonic()))

    async def applied(self) -> bool:
        """All routers run on the newest revision."""
        newest = (await self._send("GET", "config")).json()
        return all(router["revision"] == newest["revision"] for router in newest["routers"])

    async def _send_jobs(self) -> None:
        self.revisions += 1
        await self.load.submit(MORE_JOBS, more_of=self.revisions)

    async def _post(self, path: str) -> None:
        await self._send("POST", path)

    async def _set_cap(self, cap: int) -> None:
        while True:
            newest = (await self._send("GET", "config")).json()
            document = newest["document"]
            if document["groups"]["modal"]["cap"] == cap:
                return
            document["groups"]["modal"]["cap"] = cap
            await self._send("PUT", "config", document, done=412, revision=newest["revision"])

    async def _send(
        self, method: str, path: str, body: Any = None, *, done: int = 200, revision: int = 0
    ) -> httpx.Response:
        """`done`: how a repetition is refused whose first answer was lost."""
        headers = {"authorization": f"Bearer {self.system.admin_key}", "if-match": f'"{revision}"'}
        async with httpx.AsyncClient(
            base_url=self.system.api_url, headers=headers, timeout=30, trust_env=False, verify=NO_TLS
        ) as http:
            while True:
                try:
                    answer = await http.request(method, f"/admin/{path}", json=body)
                except UNDER_WAY:
                    await asyncio.sleep(PAUSE_S)  # between tries, not a test's wait
                    continue
                if answer.status_code == 503:
                    await asyncio.sleep(PAUSE_S)
                    continue
                assert answer.status_code in (200, done), answer.text
                return answer


CHANGES: dict[str, Callable[[Operator], Awaitable[None]]] = {
    "drain eu-1": lambda operator: operator.drain(
        "eu-1", lambda call: _is_modal(call) and call["region"] == "EU"
    ),
    "drain asia-1": lambda operator: operator.drain("asia-1", lambda call: bool(call["region"] == "ASIA")),
    "pause a model": lambda operator: operator.pause(QWEN),
    "smaller cap": Operator.shrink_cap,
    "another backend": Operator.replace_backend,
}


def _is_modal(call: Call) -> bool:
    return bool(call["dialect"] == "modal")


def _is_us(call: Call) -> bool:
    return bool(call["region"] == "US")


def _of_us_2(call: Call) -> bool:
    return _is_us(call) and bool(call["dialect"] == "openai")


def _overlap(call: Call, moment: float) -> bool:
    return bool(call["arrived"] <= moment and (call["ended"] is None or call["ended"] > moment))


def _job_of(call: Call) -> str:
    return encode_job_id(decode_execution_id(call["request_id"])[0])
