"""The live configuration: a document with a revision, which every process applies without a restart."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from beacon_contracts.audit import AuditActor
from beacon_contracts.model import RequestModel, ResponseModel, Text

Comment = Annotated[Text, Field(max_length=500)]


class RouterConfigRequest(RequestModel):
    """The runner sends it to a router with an older revision. A router ignores a lower one than its own."""

    revision: int = Field(ge=1)
    document: dict[str, Any] = Field(description="The sections of beacon.toml; secrets only as `env:NAME`")


class RouterConfigView(ResponseModel):
    """What a router runs on. `revision` is null until it has received one: then its own file applies."""

    revision: int | None = None
    applied_at: datetime | None = None
    errors: list[str] = Field(default_factory=list)
    """Why it could not apply the revision it was sent last; it goes on with the one before."""


class RouterRevision(ResponseModel):
    """What a router runs on, or why that is unknown."""

    url: str
    revision: int | None = None
    errors: list[str] = Field(default_factory=list)


class ConfigRevisionView(ResponseModel):
    """A revision without its document."""

    revision: int
    created_at: datetime
    actor: AuditActor
    comment: str


class ConfigView(ConfigRevisionView):
    """The newest revision, and what the routers run on."""

    document: dict[str, Any] = Field(description="The sections of beacon.toml; secrets only as `env:NAME`")
    routers: list[RouterRevision] = Field(default_factory=list)


class ConfigRevisionList(ResponseModel):
    """Newest first."""

    revisions: list[ConfigRevisionView]
    next_before: int | None = None


class ConfigDifference(ResponseModel):
    """`before` null: the key was added; `after` null: it was removed. Defaults count as given."""

    key: str
    before: Any = None
    after: Any = None


class StrandedWork(ResponseModel):
    """Executions that no backend could run any more. They would fail with `model_removed`."""

    model: str
    region: str
    executions: int


class ConfigChange(ResponseModel):
    """What a change does. `revision` is the newest one; it is a new one if `applied`."""

    revision: int
    applied: bool
    differences: list[ConfigDifference]
    stranded: list[StrandedWork]
    restart_needed: list[str] = Field(
        description="Changed keys that apply when the processes are started again"
    )


class ConfigRollback(RequestModel):
    """Which revision applies again, as a new one."""

    revision: int = Field(ge=1, le=2_147_483_647)
    comment: Comment = ""


class ConfiguredBackend(ResponseModel):
    """A backend of the configuration, and what the routers report about it."""

    name: str
    region: str
    dialect: str
    url: str
    models: list[str]
    slots: int
    group: str | None = None
    drain: bool
    simulated: bool
    busy: int = Field(description="Requests that it runs now, of all routers")
    state: str = Field(
        description="`closed` takes requests; `half_open`, `open` and `starting` as its breaker; `drained`, "
        "`draining`; `unknown` while no router has it"
    )
    cause: str | None = Field(default=None, description="Why it takes no requests")


class ConfiguredBackends(ResponseModel):
    """All backends of the newest revision."""

    revision: int
    backends: list[ConfiguredBackend]
