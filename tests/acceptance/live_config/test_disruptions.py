"""Changes while processes die, do not answer or read their file again."""

import os
import signal
from typing import Any

import httpx
import pytest

from tests.acceptance.live_config.conftest import Operator
from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until

pytestmark = pytest.mark.stack

LLAMA = "llama3.2-1b"


async def drain(operator: Operator) -> int:
    """Only stored: the caller decides what the routers do."""
    answer = await operator.http.post("/admin/backends/us-1/drain")
    return int(answer.raise_for_status().json()["revision"])


async def test_a_change_survives_the_death_of_the_runner_before_it_is_sent(operator: Operator) -> None:
    stack = operator.stack
    os.kill(stack.pid("router"), signal.SIGSTOP)
    try:
        revision = await drain(operator)
        stack.kill("runner")
    finally:
        os.kill(stack.pid("router"), signal.SIGCONT)
    stack.start("runner")
    await operator.applied(revision)
    job = await operator.submit(LLAMA)
    assert "us-1 is drained or has 0 slots" in await operator.waits_for(job)
    await operator.change("POST", "/admin/backends/us-1/resume")
    assert (await operator.ended(job))["status"] == "completed"


async def test_a_change_survives_the_death_of_the_router_while_it_is_sent(operator: Operator) -> None:
    os.kill(operator.stack.pid("router"), signal.SIGSTOP)
    revision = await drain(operator)
    operator.stack.kill("router")
    operator.stack.start("router")
    await operator.applied(revision)
    assert (await operator.backend("us-1"))["state"] == "drained"


async def test_a_router_that_restarts_without_the_runner_has_its_last_revision(operator: Operator) -> None:
    stack = operator.stack
    await operator.change("POST", "/admin/backends/us-1/drain")
    revision = (await operator.config())["revision"]
    stack.stop("runner")
    try:
        stack.kill("router")
        stack.start("router")
        headers = {"authorization": f"Bearer {stack.credentials.service_token}"}
        async with httpx.AsyncClient(
            base_url=stack.credentials.router_url, headers=headers, timeout=WAIT_TIMEOUT_S, verify=NO_TLS
        ) as router:
            assert (await router.get("/config")).json()["revision"] == revision
            body: dict[str, Any] = {
                "request_id": "direct",
                "model": LLAMA,
                "region": "US",
                "failover": "pinned",
            }
            sent = await router.post(
                "/inference", json={**body, "input": {"prompt": "x"}}, headers={"prefer": "respond-async"}
            )
            assert sent.json()["state"] == "queued"
            assert await operator.calls(LLAMA) == []
            await router.delete("/inference/direct")
    finally:
        stack.start("runner")


async def test_sighup_applies_the_edited_file_and_refuses_a_wrong_one(operator: Operator) -> None:
    shipped = operator.config_file.read_text(encoding="utf-8")
    pid = operator.stack.pid("runner")
    try:
        operator.config_file.write_text(shipped.replace("cap = 10", "cap = 3"), encoding="utf-8")
        os.kill(pid, signal.SIGHUP)

        async def capped() -> bool:
            groups = (await operator.http.get("/api/v1/regions")).json()["groups"]
            return bool(groups["modal"]["cap"] == 3)

        await until(capped, "the router has the cap of the file")
        operator.config_file.write_text(shipped.replace("cap = 10", "cap = -1"), encoding="utf-8")
        os.kill(pid, signal.SIGHUP)

        async def refused() -> bool:
            return "config_not_reloaded" in operator.stack.log("runner")

        await until(refused, "the wrong file is refused")
        assert await capped()
        assert operator.stack.pid("runner") == pid
    finally:
        operator.config_file.write_text(shipped, encoding="utf-8")


async def test_the_router_ignores_sighup_while_it_has_a_revision(operator: Operator) -> None:
    os.kill(operator.stack.pid("router"), signal.SIGHUP)

    async def ignored() -> bool:
        return "config_file_ignored" in operator.stack.log("router")

    await until(ignored, "the signal was handled")
    assert (await operator.ended(await operator.submit(LLAMA)))["status"] == "completed"
