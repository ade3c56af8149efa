"""The revisions of the configuration."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from beacon_contracts.audit import AuditAction
from beacon_contracts.configuration import RouterConfigRequest, RouterRevision
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.configuration import ConfigEntry, ConfigRevision, Unserved


class ConfigStore(Protocol):
    async def newest(self) -> ConfigRevision | None:
        """The one that applies; None before the first one."""
        ...

    async def newest_number(self) -> int | None: ...

    async def revision(self, number: int) -> ConfigRevision | None: ...

    async def newest_of_file(self) -> ConfigRevision | None:
        """The last one that a process of Beacon has read from a file."""
        ...

    async def page(self, before: int | None, limit: int) -> Sequence[ConfigEntry]:
        """Newest first, from the one before `before`."""
        ...

    async def add(
        self,
        document: Mapping[str, Any],
        *,
        after: int,
        comment: str,
        by: Actor,
        action: AuditAction,
        target: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> int | None:
        """Its number, with an entry in the audit log; None if `after` is not the newest one."""
        ...

    async def stranded(self, models: Collection[str], unserved: Unserved) -> Counter[tuple[str, str]]:
        """Unfinished executions of live jobs with these models that are not served, by model and region."""
        ...

    async def live_jobs(self, classes: Collection[str]) -> Counter[str]:
        """Live jobs by their class, of these classes."""
        ...


class RouterConfigs(Protocol):
    """The configurations that the routers run on."""

    async def configs(self) -> list[RouterRevision]:
        """Of each router; one that does not answer says so in `errors`."""
        ...

    async def configure(self, url: str, request: RouterConfigRequest) -> RouterRevision:
        """Send a revision to a router."""
        ...
