"""The live configuration: a document with a revision, which every process applies without a restart."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from beacon_contracts.audit import AuditActor
from beacon_contracts.model import RequestModel, ResponseModel, Text

Comment = Annotated[Text, Field(max_length=500)]


class RouterConfigRequest(RequestModel):
    """The runner sends it to a router with an older revision. A router ignores an older one than its own:
    numbers begin again when the database was restored from a backup, so that the time decides."""

    revision: int = Field(ge=1)
    created_at: AwareDatetime
    document: dict[str, Any] = Field(description="The sections of beacon.toml; secrets only as `env:NAME`")


class RouterConfigView(ResponseModel):
    """What a router runs on. `revision` is null until it has received one: then its own file applies."""

    revision: int | None = None
    created_at: datetime | None = None
    applied_at: datetime | None = None
    refused: int | None = None
    """A later revision that it could not apply; it goes on with the one before."""
    refused_created_at: datetime | None = None
    errors: list[str] = Field(default_factory=list)
    """Why it was refused."""


class RouterRevision(ResponseModel):
    """What a router runs on, or why that is unknown. `refused`: a later revision that it could not apply."""

    url: str
    revision: int | None = None
    created_at: datetime | None = None
    refused: int | None = None
    refused_created_at: datetime | None = None
    errors: list[str] = Field(default_factory=list)


class ConfigRevisionView(ResponseModel):
    """A revision without its document."""

    revision: int
    created_at: datetime
    actor: AuditActor
    comment: str


class ConfigDocumentView(ConfigRevisionView):
    """A revision with its document."""

    document: dict[str, Any] = Field(description="The sections of beacon.toml; secrets only as `env:NAME`")


class ConfigView(ConfigDocumentView):
    """The newest revision, and what the routers run on."""

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
    """Unfinished executions that no backend could run any more: they would fail with `model_removed`. Or
    unfinished jobs of a class that no pool would serve: they would wait."""

    model: str | None = None
    region: str | None = None
    executions: int = 0
    job_class: str | None = None
    jobs: int = 0


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
    cause: str | None = Field(default=None, description="Why it takes no requests; `no_slots`: it has 0")


class ConfiguredBackends(ResponseModel):
    """All backends of the newest revision."""

    revision: int
    backends: list[ConfiguredBackend]
