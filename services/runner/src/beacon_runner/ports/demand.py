"""How much work the runner has not sent to the routers."""

from collections.abc import Mapping
from typing import Protocol

from beacon_runner.domain.queue.demand import GpuTarget


class DemandStore(Protocol):
    async def unsent(self) -> Mapping[GpuTarget, int]:
        """The executions of live jobs that no router has, by model and region."""
        ...
