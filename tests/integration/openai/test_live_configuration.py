"""Chat requests while the configuration changes."""

import asyncio
import copy
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.fixtures.router import Router
from tests.fixtures.waiting import until
from tests.integration.openai.test_chat import MESSAGES
from tests.integration.openai.test_stopping import client_of, rest_of, system


async def put(router: Router, revision: int, document: dict[str, Any]) -> None:
    body = {
        "revision": revision,
        "created_at": datetime(2026, 1, revision, tzinfo=UTC).isoformat(),
        "document": document,
    }
    answer = await router.http.put("/config", json=body)
    assert answer.json()["revision"] == revision, answer.text


async def test_streams_go_on_and_waiting_requests_for_a_removed_model_are_answered(
    database_url: str, redis_url: str, tmp_path: Path
) -> None:
    async with system(database_url, redis_url, tmp_path) as running, client_of(running) as client:
        router = running.router
        drained = tomllib.loads(router.process.config_file.read_text(encoding="utf-8"))
        drained["backends"]["us-1"]["drain"] = True
        removed = copy.deepcopy(drained)
        removed["backends"]["us-1"]["models"] = ["other"]
        removed["models"] = {"other": {}}
        stream = await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
        assert (await anext(stream)).choices[0].delta.content == "one"
        await put(router, 2, drained)
        waiting = asyncio.ensure_future(client.chat.completions.create(model="chat", messages=MESSAGES))

        async def queued() -> bool:
            return bool((await router.queues())["waiting"] == 1)

        await until(queued, "the request waits")
        await put(router, 3, removed)
        with pytest.raises(openai.NotFoundError) as refused:
            await waiting
        assert refused.value.code == "model_removed"
        running.gpu.finish.set()
        assert await rest_of(stream) == " two"
