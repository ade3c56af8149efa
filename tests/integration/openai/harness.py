"""A served API with a user, in front of given routers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import openai

from beacon_config import load_config
from beacon_contracts.accounts import Scope
from beacon_contracts.api_keys import new_api_key
from beacon_runner.router_client import RouterClient, RouterTimeouts
from tests.fixtures.no_tls import NO_TLS
from tests.fixtures.router import TOKEN
from tests.fixtures.waiting import WAIT_TIMEOUT_S
from tests.integration.runner_api.harness import ApiHarness, api_harness, served


@dataclass
class ChatApi:
    harness: ApiHarness
    url: str
    key: str

    def http(self) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=WAIT_TIMEOUT_S, verify=NO_TLS)


@asynccontextmanager
async def chat_api(
    database_url: str,
    redis_url: str,
    config: str,
    routers: Sequence[str],
    folder: Path,
    *,
    timeouts: RouterTimeouts | None = None,
) -> AsyncIterator[ChatApi]:
    file = folder / "beacon.toml"
    file.write_text(config, encoding="utf-8")
    timeouts = timeouts or RouterTimeouts(max_tries=20)
    async with (
        RouterClient(routers, TOKEN, timeouts=timeouts) as client,
        api_harness(database_url, redis_url, load_config(file, {}), routers=client) as harness,
        served(harness, harness.transport.app, folder) as url,
    ):
        key = new_api_key()
        await harness.users.add("anna", "premium", key, [Scope.USER])
        yield ChatApi(harness, url, key)


def openai_client(api: ChatApi, *, key: str | None = None, retries: int = 0) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=f"{api.url}/v1", api_key=key or api.key, max_retries=retries, timeout=WAIT_TIMEOUT_S
    )
