"""Sends the newest configuration to the routers that have an older one."""

import asyncio
from dataclasses import dataclass

import structlog

from beacon_contracts.configuration import RouterConfigRequest, RouterRevision
from beacon_lifecycle import RunResult
from beacon_runner.domain.configuration import ConfigEntry
from beacon_runner.ports.configuration import ConfigStore, RouterConfigs

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ConfigPush:
    """A router without an answer is tried again; one that refuses a revision is sent the next one."""

    store: ConfigStore
    routers: RouterConfigs

    async def run_once(self) -> RunResult:
        newest = await self.store.page(None, 1)
        if not newest:
            return RunResult(0)
        behind = [router.url for router in await self.routers.configs() if _is_behind(router, newest[0])]
        found = await self.store.newest() if behind else None
        if found is None:
            return RunResult(0)
        entry = found.entry
        request = RouterConfigRequest(
            revision=entry.revision, created_at=entry.created_at, document=dict(found.document)
        )
        return RunResult(sum(await asyncio.gather(*(self._send(url, request) for url in behind))))

    async def _send(self, url: str, request: RouterConfigRequest) -> bool:
        applied = await self.routers.configure(url, request)
        if applied.errors:
            log.warning("router_config_refused", router=url, revision=request.revision, errors=applied.errors)
        return applied.revision == request.revision


def _is_behind(router: RouterRevision, newest: ConfigEntry) -> bool:
    """Not one that does not answer, or has a later revision, from before the database was restored. Numbers
    begin again then, so that a refused revision is known by its time."""
    if router.refused_created_at == newest.created_at:
        return False
    if router.errors and router.revision is router.refused is None:
        return False
    return router.created_at is None or router.created_at < newest.created_at
