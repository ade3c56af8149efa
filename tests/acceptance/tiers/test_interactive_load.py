"""Many calls of one user to /v1 delay no other user."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest

from tests.acceptance.tiers.users import ENDED_STATES, UserFactory, UserSession
from tests.fixtures.waiting import WAIT_TIMEOUT_S, until

pytestmark = pytest.mark.stack

CALLS = 600
MODEL = "llama3.2-1b"
SLOTS = 4  # of the model in US
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "why?"}]}
JOB = {"kind": "generation", "model": MODEL, "prompt": "why?", "region": "US", "failover": "pinned"}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """Without a limit of connections."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(limits=limits, timeout=WAIT_TIMEOUT_S, trust_env=False) as client:
        yield client


async def call(http: httpx.AsyncClient, user: UserSession) -> httpx.Response:
    headers = user.headers | {"x-beacon-region": "US"}
    return await http.post(f"{user.url}/v1/chat/completions", json=CHAT, headers=headers)


async def waiting(users: UserFactory, count: int) -> bool:
    """Whether so many requests wait in US. The state is missing while no router answers."""
    regions = (await users.operator.get("/api/v1/regions"))["regions"]
    (state,) = (region["state"] for region in regions if region["name"] == "US")
    return state is not None and state["main"] == count


async def has_started(users: UserFactory, count: int) -> bool:
    return len(await users.calls(model=MODEL)) >= count


async def test_many_calls_of_one_user_do_not_delay_another(
    users: UserFactory, http: httpx.AsyncClient
) -> None:
    """Counted in runs that end, not in seconds."""
    busy, other = await users.new("admin"), await users.new("admin")
    await users.hold(MODEL)
    try:
        calls = [asyncio.create_task(call(http, busy)) for _ in range(CALLS)]
        await until(lambda: waiting(users, CALLS - SLOTS), "the calls wait at the router")
        one = asyncio.create_task(call(http, other))
        await until(lambda: waiting(users, CALLS - SLOTS + 1), "the other user's call waits")
        job = await other.submit(JOB)
        await until(lambda: waiting(users, CALLS - SLOTS + 2), "the other user's job waits")
        released = 0
        while not (one.done() and (await other.job(job))["status"] in ENDED_STATES):
            await users.release(1)
            released += 1
            assert released <= 4 * SLOTS, "the other user waits behind the other calls"
            await until(partial(has_started, users, SLOTS + released), "the next run has started")
        assert (await one).status_code == 200
        assert (await other.job(job))["status"] == "completed"
        assert sum(task.done() for task in calls) < 4 * SLOTS
    finally:
        await users.release()
    answers = await asyncio.gather(*calls)
    assert Counter(answer.status_code for answer in answers) == {200: CALLS}
