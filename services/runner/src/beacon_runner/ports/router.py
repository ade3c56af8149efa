"""The routers, as the worker and the API use them."""

from typing import Protocol

from beacon_client.router import RouterStatus
from beacon_client.router_cancels import Withdrawal
from beacon_contracts.inference import InferenceRequest, InferenceView
from beacon_contracts.router_status import SchedulerStatus


class InferencePort(Protocol):
    """For the worker: run one inference."""

    async def infer(self, request: InferenceRequest, *, again: bool = False) -> InferenceView:
        """Run to a terminal state; raises `RouterBusy` or `RouterUnreachable` when it was not accepted.

        `again`: it may be running at some router already, so existing runs are searched first.
        """
        ...


class RouterPort(Protocol):
    """For the API: find, cancel, status."""

    async def find(self, request_id: str, region: str | None = None) -> InferenceView | None: ...

    async def cancel(
        self, request_id: str, region: str | None = None, *, fence: int | None = None
    ) -> Withdrawal: ...

    async def status(self) -> list[RouterStatus]:
        """The queues of every router; an unavailable one gives its reason."""
        ...

    async def scheduler(self) -> list[SchedulerStatus]:
        """The schedulers of the routers that answer."""
        ...
