"""Users of one tier at a router: one keeps many requests in flight, the others a few each."""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean

import httpx

from beacon_contracts.inference import InferenceView
from beacon_router.scheduling import Fairness
from benchmarks.router.processes import TOKEN, Environment, Server
from benchmarks.scheduling.figures import jain

SLOTS, RUN_S = 4, 0.05
BULK_IN_FLIGHT, SMALL_USERS, SMALL_IN_FLIGHT = 200, 9, 2
SECONDS = 8.0
BULK = "bulk"


@dataclass(frozen=True, slots=True)
class TenantFigures:
    """One run at a router: `jain` is over the GPU seconds of all users."""

    jain: float
    bulk_share: float
    """Of the GPU time, what the user with many requests got."""
    small_wait_s: float
    """Mean seconds that the requests of the other users waited for a slot."""


async def measure_tenants(servers: Environment, gpu: Server, fairness: Fairness, name: str) -> TenantFigures:
    router = await servers.router(name, gpu, slots=SLOTS, fairness=fairness)
    limits = httpx.Limits(max_connections=None)
    headers = {"authorization": f"Bearer {TOKEN}"}
    users = {BULK: BULK_IN_FLIGHT} | {f"small-{number}": SMALL_IN_FLIGHT for number in range(SMALL_USERS)}
    async with httpx.AsyncClient(base_url=router.url, headers=headers, limits=limits, timeout=60.0) as http:
        load = _TenantLoad(http, time.monotonic() + SECONDS)
        async with asyncio.TaskGroup() as tasks:
            for user, in_flight in users.items():
                for place in range(in_flight):
                    tasks.create_task(load.keep_sending(user, place))
    return load.figures()


class _TenantLoad:
    def __init__(self, http: httpx.AsyncClient, ends_at: float) -> None:
        self._http = http
        self._ends_at = ends_at
        self._used: dict[str, float] = defaultdict(float)
        self._waits: list[float] = []

    async def keep_sending(self, user: str, place: int) -> None:
        """Send requests in sequence; those that end after the measured time are not counted."""
        number = 0
        while time.monotonic() < self._ends_at:
            body = {
                "request_id": f"{user}-{place}-{number}",
                "model": "m",
                "region": "US",
                "input": {"prompt": "x"},
                "user_id": user,
            }
            response = await self._http.post("/inference", json=body)
            response.raise_for_status()
            timing = InferenceView.model_validate_json(response.content).timing
            number += 1
            if time.monotonic() < self._ends_at:
                self._used[user] += timing.run_s
                if user != BULK:
                    self._waits.append(timing.queued_s)

    def figures(self) -> TenantFigures:
        used = self._used
        return TenantFigures(
            jain=jain(list(used.values())),
            bulk_share=used[BULK] / sum(used.values()),
            small_wait_s=fmean(self._waits),
        )
