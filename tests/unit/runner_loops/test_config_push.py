"""Which routers are sent the newest revision."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from beacon_contracts.configuration import RouterConfigRequest, RouterRevision
from beacon_runner.domain.accounts.audit import SYSTEM
from beacon_runner.domain.configuration import ConfigEntry, ConfigRevision
from beacon_runner.maintenance.config_push import ConfigPush
from beacon_runner.ports.configuration import ConfigStore

AT = datetime(2026, 1, 1, tzinfo=UTC)
NEWEST = ConfigRevision(ConfigEntry(7, AT, SYSTEM, "system", ""), {"backends": {}})
URL = "http://router"


class Store:
    async def newest(self) -> ConfigRevision | None:
        return NEWEST

    async def page(self, before: int | None, limit: int) -> Sequence[ConfigEntry]:
        return [NEWEST.entry]


@dataclass
class Routers:
    states: list[RouterRevision]
    sent: list[str] = field(default_factory=list)

    async def configs(self) -> list[RouterRevision]:
        return self.states

    async def configure(self, url: str, request: RouterConfigRequest) -> RouterRevision:
        self.sent.append(url)
        return RouterRevision(url=url, revision=request.revision, created_at=request.created_at)


def router(**state: Any) -> RouterRevision:
    return RouterRevision(url=URL, **state)


@pytest.mark.parametrize(
    ("state", "sent"),
    [
        (router(), True),
        (router(revision=6, created_at=AT - timedelta(seconds=1)), True),
        (router(revision=7, created_at=AT), False),
        (router(errors=["no answer"]), False),
        (router(refused=7, refused_created_at=AT, errors=["a variable is not set"]), False),
        (router(refused=7, refused_created_at=AT - timedelta(days=1), errors=["x"]), True),
        (router(refused=6, errors=["a variable is not set"]), True),
        (router(revision=5, created_at=AT - timedelta(days=1), refused=6, errors=["x"]), True),
        (router(revision=9, created_at=AT - timedelta(days=1)), True),
        (router(revision=9, created_at=AT + timedelta(days=1)), False),
    ],
    ids=[
        "with its file",
        "with an older one",
        "with the newest one",
        "without an answer",
        "that refuses it",
        "that refuses one of the same number of an earlier time",
        "that refuses an older one, with its file",
        "that refuses an older one",
        "with a higher number of an earlier time",
        "with a later one of a database that was restored",
    ],
)
async def test_a_router_gets_the_revision_that_it_does_not_have(state: RouterRevision, sent: bool) -> None:
    routers = Routers([state])
    await ConfigPush(cast("ConfigStore", Store()), routers).run_once()
    assert routers.sent == ([URL] if sent else [])


async def test_a_router_without_an_answer_does_not_delay_the_others() -> None:
    routers = Routers([router(errors=["no answer"]), RouterRevision(url="http://other")])
    result = await ConfigPush(cast("ConfigStore", Store()), routers).run_once()
    assert (routers.sent, result.count) == (["http://other"], 1)
