"""The running system, and an operator who changes its configuration."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.stack import RunningStack, changed_config, running_stack
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until

FINAL = ("completed", "partial", "failed", "cancelled", "expired")
US = "gpusim-us"


@pytest.fixture(scope="module")
def config_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return changed_config(tmp_path_factory.mktemp("config"), {})


@pytest.fixture(scope="module")
def stack(config_file: Path) -> Iterator[RunningStack]:
    with running_stack(BEACON_CONFIG=str(config_file), GPUSIM_TIME_SCALE="0") as running:
        yield running


class Operator:
    """Submits jobs without limits, and changes the configuration."""

    def __init__(self, stack: RunningStack, http: httpx.AsyncClient, config_file: Path) -> None:
        self.stack = stack
        self.config_file = config_file
        self.http = http

    async def config(self) -> Any:
        return (await self.http.get("/admin/config")).raise_for_status().json()

    async def change(
        self, method: str, path: str, body: Any = None, *, status: int = 200, **query: Any
    ) -> Any:
        """Returns when the routers run on it."""
        answer = await self.http.request(method, path, json=body, params=query)
        assert answer.status_code == status, answer.text
        made = answer.json()
        if status == 200 and made["applied"]:
            await self.applied(made["revision"])
        return made

    async def edit(self, section: str, name: str, **keys: Any) -> Any:
        """Change some keys of a table of the newest document."""
        newest = await self.config()
        document = newest["document"]
        document[section][name] |= keys
        headers = {"if-match": f'"{newest["revision"]}"'}
        answer = await self.http.put("/admin/config", json=document, headers=headers)
        assert answer.status_code == 200, answer.text
        await self.applied(answer.json()["revision"])

    async def applied(self, revision: int) -> None:
        async def everywhere() -> bool:
            return all(router["revision"] == revision for router in (await self.config())["routers"])

        await until(everywhere, f"the routers run on revision {revision}")

    async def submit(self, model: str, **more: Any) -> str:
        body = {
            "kind": "generation",
            "model": model,
            "prompt": "x",
            "region": "US",
            "failover": "pinned",
            **more,
        }
        answer = await self.http.post("/api/v1/jobs", json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["job_id"])

    async def job(self, job_id: str) -> Any:
        return (await self.http.get(f"/api/v1/jobs/{job_id}")).raise_for_status().json()

    async def ended(self, job_id: str) -> Any:
        async def over() -> Any:
            found = await self.job(job_id)
            return found if found["status"] in FINAL else None

        return await until(over, f"{job_id} ends")

    async def waits_for(self, job_id: str) -> str:
        """The reason that a job waits at the router."""

        async def reason() -> str:
            why = (await self.http.get(f"/api/v1/jobs/{job_id}/why")).raise_for_status().json()
            return str(why) if "US" in str(why) else ""

        return str(await until(reason, f"{job_id} waits at the router"))

    async def backend(self, name: str) -> Any:
        found = (await self.http.get("/admin/backends")).raise_for_status().json()["backends"]
        return next(one for one in found if one["name"] == name)

    async def calls(self, model: str) -> list[Any]:
        """What the simulated GPU of the region US was sent for a model."""
        answer = await self.gpu("GET", "ledger", params={"model": model})
        return list(answer.json()["calls"])

    async def running(self, model: str, count: int) -> None:
        async def reached() -> bool:
            return len([call for call in await self.calls(model) if call["ended"] is None]) == count

        await until(reached, f"{count} runs of {model}")

    async def hold(self, model: str) -> None:
        await self.gpu("POST", "faults", json={"kind": "hold", "model": model})

    async def release(self, most: int | None = None) -> None:
        await self.gpu("POST", "release", params={} if most is None else {"most": most})

    async def gpu(self, method: str, path: str, **options: Any) -> httpx.Response:
        url = f"{self.stack.url(US)}/control/{path}"
        return (await self.http.request(method, url, **options)).raise_for_status()


@pytest.fixture
async def operator(stack: RunningStack, config_file: Path) -> AsyncIterator[Operator]:
    """The first revision applies at the begin of each test."""
    async with httpx.AsyncClient(
        base_url=stack.credentials.runner_url, headers=stack.admin, timeout=WAIT_TIMEOUT_S, verify=NO_TLS
    ) as http:
        one = Operator(stack, http, config_file)
        await one.gpu("POST", "reset")
        await one.gpu("DELETE", "ledger")
        yield one
        await one.release()
        await one.change("POST", "/admin/config/rollback", {"revision": 1}, force=True)
