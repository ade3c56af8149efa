"""Jobs for a stalled region do not block other users, in no class, with one worker process or two."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.acceptance.tiers.users import UserFactory, UserSession
from tests.fixtures.stack import RunningStack

pytestmark = pytest.mark.stack

TIERS = ("creator", "premium", "free")  # one of each class


def pinned(region: str, model: str = "llama3.2-1b") -> dict[str, Any]:
    return {
        "kind": "generation",
        "model": model,
        "prompt": "why?",
        "region": region,
        "failover": "pinned",
    }


async def flood(users: UserFactory, body: dict[str, Any], *, count: int, jobs: int) -> int:
    """So many users, in all classes, with so many jobs each: the leases when all wait at the router."""
    leased = await leases(users) + count * jobs
    for number in range(count):
        user = await users.new(TIERS[number % len(TIERS)])
        answer = await user.request("POST", "/api/v1/jobs/batch", {"jobs": [body] * jobs})
        answer.raise_for_status()
    await users.workers_have(leased)
    return leased


async def others_complete(users: UserFactory) -> None:
    """New users of every class get their jobs for an idle region done."""

    async def run(user: UserSession) -> str:
        done = await user.done(await user.submit(pinned("ASIA")))
        return str(done["status"])

    others = [await users.new(tier) for tier in TIERS * 3]
    assert await asyncio.gather(*map(run, others)) == ["completed"] * len(others)


async def leases(users: UserFactory) -> int:
    return int((await users.operator.get("/admin/runtime/stats"))["leases"])


async def ended_calls(stack: RunningStack, gpu: str) -> list[Any]:
    async with httpx.AsyncClient(base_url=stack.url(gpu)) as http:
        calls = (await http.get("/control/ledger")).json()["calls"]
    return [call for call in calls if call["outcome"] is not None]


async def test_a_stalled_region_does_not_block_other_users(users: UserFactory, stack: RunningStack) -> None:
    """Finding W1: 16 jobs for a busy region stopped every user of every class."""
    leased = await flood(users, pinned("US"), count=50, jobs=100)
    await others_complete(users)
    assert await leases(users) == leased
    assert await ended_calls(stack, "gpusim-us") == []


async def test_a_model_that_loads_for_six_minutes_does_not_block_other_users(
    users: UserFactory, stack: RunningStack
) -> None:
    leased = await flood(users, pinned("EU", "mistral-7b"), count=9, jobs=20)
    await others_complete(users)
    assert await leases(users) == leased
    assert await ended_calls(stack, "gpusim-eu") == []


@pytest.mark.usefixtures("second_worker")
async def test_a_stalled_region_does_not_block_other_users_with_two_workers(
    users: UserFactory, stack: RunningStack
) -> None:
    leased = await flood(users, pinned("US"), count=50, jobs=100)
    await others_complete(users)
    assert await leases(users) == leased
    assert await ended_calls(stack, "gpusim-us") == []
