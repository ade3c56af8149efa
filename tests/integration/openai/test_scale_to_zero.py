"""A backend that has no instance until work waits for it: chats and jobs wait for the start."""

import asyncio
from pathlib import Path
from typing import Any

from tests.fixtures.gpusim import start_gpusim
from tests.fixtures.router import Router, backend, router_config, start_router
from tests.fixtures.waiting import until
from tests.integration.openai.harness import chat_api, openai_client
from tests.integration.openai.test_chat import MESSAGES


async def test_chats_and_jobs_wait_until_an_instance_is_there(
    database_url: str, redis_url: str, unused_tcp_port: int, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    entry = backend("US", url, dialect="openai", models=("chat",), scale_to_zero=True)
    config = router_config({"us-1": entry}, attempts=1)
    async with (
        start_router(config) as router,
        chat_api(database_url, redis_url, config, [router.url], tmp_path) as api,
        openai_client(api) as client,
    ):
        chat = asyncio.ensure_future(client.chat.completions.create(model="chat", messages=MESSAGES))
        stream = asyncio.ensure_future(
            client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
        )
        await until(lambda: _waits(router, 2), "both chats wait for the start")
        job = asyncio.ensure_future(router.infer("exe-1", model="chat", given={"messages": MESSAGES}))
        await until(lambda: _waits(router, 3), "the job waits, too")
        waiting = await router.get("exe-1")
        assert waiting.waiting_for == "starting: us-1 in US has no running instance yet"
        regions = (await router.queues())["regions"]
        (shown,) = regions["US"]["backends"]
        assert (shown["breaker"]["state"], regions["US"]["healthy"]) == ("starting", True)
        async with start_gpusim(region="US", port=unused_tcp_port, default_load=0, default_run=0):
            assert (await chat).choices[0].message.content
            assert [part async for part in await stream]
            result = await job
        assert (result.state, [one.outcome for one in result.tries]) == ("completed", ["completed"])


async def _waits(router: Router, count: int) -> bool:
    queues: Any = await router.queues()
    return bool(queues["waiting"] == count)
