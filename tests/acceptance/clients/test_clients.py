"""Clients that people use, in front of the runner's API: `make clients` installs them beside the project."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.gpusim import Gpusim, GpusimProcess, gpusim_client, gpusim_process
from tests.fixtures.router import RouterProcess, backend, router_config, router_process
from tests.fixtures.waiting import until
from tests.integration.openai.harness import ChatApi, chat_api

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "tests" / "fixtures" / "clients"
PYTHON = ROOT / ".venv-clients" / "bin" / "python"
NODE = ROOT / ".venv-clients" / "node" / "node_modules" / "openai"
PACKAGES = {
    "openai": "openai",
    "litellm": "litellm",
    "langchain": "langchain_openai",
    "instructor": "instructor",
    "pydantic_ai": "pydantic_ai",
    "llm": "llm",
}
SLOW_S = 3_000
HELD_S = 200  # a word every few seconds
NOT_INSTALLED = "is not installed: `make clients` installs it, where its registry is reachable"


@pytest.fixture(scope="module")
def gpu_process() -> Iterator[GpusimProcess]:
    models = {name: {"load": 0, "run": run} for name, run in (("slow", SLOW_S), ("held", HELD_S))}
    with gpusim_process(
        region="US", slots=8, loaded_models=8, models=models, default_load=0, default_run=0
    ) as process:
        yield process


@pytest.fixture(scope="module")
def config(gpu_process: GpusimProcess) -> str:
    names = ("chat", "slow", "held")
    entry = backend("US", gpu_process.url, dialect="openai", models=names, slots=8, loaded_models=3)
    text = router_config({"us-1": entry})
    return text.replace('[tiers."premium"]\n', '[tiers."premium"]\nconcurrent_requests = 2\n')


@pytest.fixture(scope="module")
def router(config: str) -> Iterator[RouterProcess]:
    with router_process(config) as running:
        yield running


@pytest.fixture
async def gpu(gpu_process: GpusimProcess) -> AsyncIterator[Gpusim]:
    async with gpusim_client(gpu_process) as client:
        await client.clear_ledger()
        yield client


@pytest.fixture
async def api(
    database_url: str, redis_url: str, config: str, router: RouterProcess, tmp_path: Path
) -> AsyncIterator[ChatApi]:
    async with chat_api(database_url, redis_url, config, [router.url], tmp_path) as served:
        yield served


@pytest.mark.parametrize("client", list(PACKAGES))
async def test_a_python_client(api: ChatApi, gpu: Gpusim, client: str) -> None:
    if not any(PYTHON.parents[1].glob(f"lib/python*/site-packages/{PACKAGES[client]}")):
        pytest.skip(f"{client} {NOT_INSTALLED}")
    results = await _results(str(PYTHON), str(PROGRAMS / "program.py"), client, f"{api.url}/v1", api.key)
    await _check(results, gpu)


async def test_the_node_client(api: ChatApi, gpu: Gpusim, tmp_path: Path) -> None:
    if not NODE.exists():
        pytest.skip(f"the npm package openai {NOT_INSTALLED}")
    program = NODE.parents[1] / "program.mjs"  # Node finds packages beside the program
    program.write_text((PROGRAMS / "program.mjs").read_text(encoding="utf-8"), encoding="utf-8")
    await _check(await _results("node", str(program), f"{api.url}/v1", api.key), gpu)


async def _results(*command: str) -> dict[str, Any]:
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # else it asks the internet
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-3_000:]
    results: dict[str, Any] = json.loads(output.splitlines()[-1])
    return results


async def _check(results: dict[str, Any], gpu: Gpusim) -> None:
    for scenario in ("plain", "stream"):
        assert "Why is the sky blue?" in results[scenario]
    name, arguments = results["tools"]
    assert (name, list(arguments)) == ("weather", ["city"])
    assert isinstance(results["structured"]["city"], str)
    assert results["structured"]["people"] == 1
    assert any("Time" in name for name in results["timeout"]), results["timeout"]
    assert results["cancelled"], "a part of the stream has arrived before it was cancelled"
    limited = results["limited"]
    assert any("429" in name for name in limited["refused"]), limited
    assert limited["repeated"]
    assert "Why is the sky blue?" in limited["answer"]

    async def cancelled() -> bool:
        calls = [call for call in await gpu.ledger() if call["model"] != "chat"]
        outcomes = Counter((call["model"], call["outcome"]) for call in calls)
        return outcomes == {("slow", "aborted"): 1, ("held", "aborted"): 3}

    await until(cancelled, "the runs of clients that have left are cancelled")
