"""Limits on a user's requests that all API processes share."""

from typing import Protocol

from beacon_contracts.ids import UserId
from beacon_runner.domain.limits.request_quota import Admitted, Refused, RequestQuota, RequestUse


class RequestLimits(Protocol):
    """Admissions are leases: this process renews them until they are released, and they expire if it dies.

    Without Redis, each process applies the limits to the requests that it admits itself.
    """

    async def admit(self, user: UserId, quota: RequestQuota, request_id: str) -> Admitted | Refused:
        """Count the request, or refuse it without counting it. `request_id` is new for each request."""
        ...

    async def release(self, admission: Admitted) -> None:
        """The request has ended; idempotent, completes even if the caller is cancelled, and never raises."""
        ...

    async def use(self, user: UserId, quota: RequestQuota) -> RequestUse:
        """The user's requests in all processes."""
        ...
