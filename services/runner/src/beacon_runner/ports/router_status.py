"""What the API asks of the routers; the job runner has its own way to them."""

from typing import Protocol

from beacon_client.router import RouterStatus
from beacon_client.router_cancels import Withdrawal
from beacon_contracts.inference import InferenceView
from beacon_contracts.router_status import SchedulerStatus


class RouterPort(Protocol):
    async def find(self, request_id: str, region: str | None = None) -> InferenceView | None: ...

    async def cancel(
        self, request_id: str, region: str | None = None, *, fence: int | None = None
    ) -> Withdrawal: ...

    async def status(self) -> list[RouterStatus]:
        """The queues of every router; one that is away says why."""
        ...

    async def scheduler(self) -> list[SchedulerStatus]:
        """The schedulers of the routers that answer."""
        ...
