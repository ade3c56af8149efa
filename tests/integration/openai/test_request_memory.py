"""The requests that wait in the API process use bounded memory, shared between users."""

import asyncio
import gc
import json
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from beacon_contracts.accounts import Scope
from beacon_contracts.api_keys import new_api_key
from tests.fixtures.gpusim import Gpusim
from tests.fixtures.router import Router, RouterProcess
from tests.fixtures.waiting import until
from tests.integration.openai.harness import ChatApi, chat_api
from tests.integration.openai.test_chat import MESSAGES

PATH = "/v1/chat/completions"
MIB = 1 << 20
LIMITS = f"[limits]\nopenai_body_bytes = {8 * MIB}\nopenai_held_bytes = {20 * MIB}\n"


@pytest.fixture
async def api(
    database_url: str, redis_url: str, config: str, shared_router: RouterProcess, tmp_path: Path
) -> AsyncIterator[ChatApi]:
    limited = config + LIMITS
    async with chat_api(database_url, redis_url, limited, [shared_router.url], tmp_path) as served:
        yield served


def image_request(size: int) -> bytes:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * size}}
    document = {"model": "chat", "stream": True, "messages": [{"role": "user", "content": [image]}]}
    return json.dumps(document).encode()


async def test_waiting_requests_are_held_once_and_bounded_in_sum(
    api: ChatApi, gpu: Gpusim, router: Router
) -> None:
    other_key = new_api_key()
    await api.harness.users.add("ben", "premium", other_key, [Scope.USER])
    large = image_request(3 * MIB)
    await gpu.hold()
    async with api.http() as http:
        await http.get("/v1/models")  # imports and caches are filled
        gc.collect()
        tracemalloc.start()
        try:
            waiting = [asyncio.ensure_future(http.post(PATH, content=large)) for _ in range(3)]
            await until(lambda: _live(router, 3), "the requests have arrived")
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held <= 1.3 * len(large) * 3

        for body in (large, _chunked(large)):
            refused = await http.post(PATH, content=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "memory_full")
            assert int(refused.headers["retry-after"]) > 0
        small = {"model": "chat", "messages": MESSAGES}
        headers = {"authorization": f"Bearer {other_key}"}
        other = asyncio.ensure_future(http.post(PATH, json=small, headers=headers))
        await until(lambda: _live(router, 4), "another user has room")

        await gpu.release()
        answers: list[httpx.Response] = await asyncio.gather(*waiting, other)
        assert [answer.status_code for answer in answers] == [200] * 4
        assert (await http.post(PATH, content=large)).status_code == 200


async def test_a_refused_request_keeps_no_memory(api: ChatApi) -> None:
    invalid = image_request(3 * MIB).replace(b'"chat"', b'"none"')
    async with api.http() as http:
        answers = [await http.post(PATH, content=body) for body in (invalid, invalid[:-1]) * 4]
    assert [answer.status_code for answer in answers] == [404, 400] * 4


async def _live(router: Router, count: int) -> bool:
    queues = await router.queues()
    return bool(queues["running"] + queues["waiting"] == count)


async def _chunked(body: bytes) -> AsyncIterator[bytes]:
    yield body
