"""Sends the newest configuration to the routers that have an older one."""

from dataclasses import dataclass, field

import structlog

from beacon_contracts.configuration import RouterConfigRequest
from beacon_lifecycle import RunResult
from beacon_runner.ports.configuration import ConfigStore, RouterConfigs

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ConfigPush:
    """A router without an answer is tried again; one that refuses a revision is sent the next one."""

    store: ConfigStore
    routers: RouterConfigs
    _refused: dict[str, int] = field(default_factory=dict)

    async def run_once(self) -> RunResult:
        number = await self.store.newest_number()
        if number is None:
            return RunResult(0)
        behind = [
            router.url
            for router in await self.routers.configs()
            if (router.revision or 0) < number and (router.revision is not None or not router.errors)
        ]
        behind = [url for url in behind if self._refused.get(url) != number]
        newest = await self.store.newest() if behind else None
        if newest is None:
            return RunResult(0)
        request = RouterConfigRequest(revision=newest.entry.revision, document=dict(newest.document))
        return RunResult(sum([await self._send(url, request) for url in behind]))

    async def _send(self, url: str, request: RouterConfigRequest) -> bool:
        applied = await self.routers.configure(url, request)
        if applied.errors:
            log.warning("router_config_refused", router=url, revision=request.revision, errors=applied.errors)
            if applied.revision is not None:
                self._refused[url] = request.revision
        return applied.revision == request.revision
