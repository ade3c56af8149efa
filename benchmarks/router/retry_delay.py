"""The delay until an idle region starts a due retry of another region."""

import asyncio

import httpx

from benchmarks.router.processes import TOKEN, Server

BACKOFF_S = 2.0
TRIALS = 20


async def retry_delays(us: Server, eu: Server, router: Server) -> list[float]:
    """Milliseconds from the due moment until the other region's GPU saw the call, one for each run."""
    async with httpx.AsyncClient(timeout=30) as http:
        await http.post(f"{us.url}/control/faults", json={"kind": "error", "status": 503, "next": TRIALS})
        headers = {"authorization": f"Bearer {TOKEN}"}
        names = [f"retry-{number}" for number in range(TRIALS)]
        answers = await asyncio.gather(
            *(http.post(f"{router.url}/inference", headers=headers, json=_ask(name)) for name in names)
        )
        if any(answer.json()["actual_region"] != "EU" for answer in answers):
            raise RuntimeError("a retry did not move")
        failed = await _moments(http, us, "ended")
        started = await _moments(http, eu, "arrived")
    return [(started[name] - failed[name] - BACKOFF_S) * 1000 for name in names]


def _ask(name: str) -> dict[str, object]:
    return {"request_id": name, "model": "m", "region": "US", "input": {"prompt": "x"}}


async def _moments(http: httpx.AsyncClient, gpu: Server, which: str) -> dict[str, float]:
    calls = (await http.get(f"{gpu.url}/control/ledger")).json()["calls"]
    return {call["request_id"]: call[which] for call in calls}
