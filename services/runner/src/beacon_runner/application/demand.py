"""The demand for GPUs, for autoscalers that poll it."""

from collections.abc import Mapping, Sequence

from beacon_config import LiveConfig
from beacon_contracts.demand import GpuDemand
from beacon_lifecycle import Clock
from beacon_runner.application.cached_snapshot import CachedSnapshot
from beacon_runner.domain.errors import InvalidFieldsError, StoreUnavailableError
from beacon_runner.domain.queue.demand import GpuTarget, demand_of
from beacon_runner.ports.demand import DemandStore
from beacon_runner.ports.router import RouterPort, RouterStatus

FRESH_S = 5.0
MAX_AGE_S = 120.0
TIMEOUT_S = 10.0
ROUTERS_FRESH_S = 1.0


class DemandService:
    """Any number of clients costs one count of the live jobs in `FRESH_S`."""

    def __init__(self, store: DemandStore, router: RouterPort, live: LiveConfig, clock: Clock) -> None:
        self._live = live
        self._unsent: CachedSnapshot[Mapping[GpuTarget, int]] = CachedSnapshot(
            "unsent", store.unsent, clock, fresh_s=FRESH_S
        )
        self._routers: CachedSnapshot[Sequence[RouterStatus]] = CachedSnapshot(
            "router-status", router.status, clock, fresh_s=ROUTERS_FRESH_S
        )

    async def current(
        self, target_wait_s: float, models: Sequence[str] = (), regions: Sequence[str] = ()
    ) -> GpuDemand:
        config = self._live.current
        for name in models:
            if name not in config.models:
                raise InvalidFieldsError.of("model", f"there is no model {name!r}")
        known = [config.region_names.get(name.casefold()) for name in regions]
        if None in known:
            raise InvalidFieldsError.of("region", f"there is no region {regions[known.index(None)]!r}")
        await self._unsent.fresh(TIMEOUT_S)
        unsent = self._unsent.latest(MAX_AGE_S)
        if unsent is None:
            raise StoreUnavailableError("the live jobs cannot be counted now")
        statuses = await self._routers.fresh(TIMEOUT_S) or []
        return demand_of(
            config,
            unsent,
            [status.queues for status in statuses if status.queues is not None],
            target_wait_s=target_wait_s,
            models=models,
            regions=[name for name in known if name is not None],
            unavailable=[status.url for status in statuses if status.queues is None],
        )

    async def close(self) -> None:
        await self._unsent.close()
        await self._routers.close()
