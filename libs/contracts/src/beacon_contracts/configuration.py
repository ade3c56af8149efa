"""The live configuration: a document with a revision, which every process applies without a restart."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from beacon_contracts.audit import AuditActor
from beacon_contracts.model import RequestModel, ResponseModel, Text

Comment = Annotated[Text, Field(max_length=500)]


class RouterConfigRequest(RequestModel):
    """The newest revision, which the runner sends to routers with an older one.

    A router ignores a revision that was created before its own. The time decides and not the number, because
    numbers begin again after the database was restored from a backup.
    """

    revision: int = Field(ge=1)
    created_at: AwareDatetime
    document: dict[str, Any] = Field(description="The sections of beacon.toml; secrets only as `env:NAME`")


class RouterConfigView(ResponseModel):
    """The revision that a router uses. `revision` is null until it has received one: its own file applies."""

    revision: int | None = None
    created_at: datetime | None = None
    applied_at: datetime | None = None
    refused: int | None = None
    """A later revision that it could not apply; the one before stays in use."""
    refused_created_at: datetime | None = None
    errors: list[str] = Field(default_factory=list)
    """Why it was refused."""


class RouterRevision(ResponseModel):
    """The revision that a router uses. `refused`: a later one that it could not apply, with `errors`."""

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
    """The newest revision, and the revisions that the routers use."""

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
    """Unfinished work that a change leaves without a backend or pool.

    Executions that no backend could run would fail with `model_removed`. Jobs of a class that no pool serves
    would wait.
    """

    model: str | None = None
    region: str | None = None
    executions: int = 0
    job_class: str | None = None
    jobs: int = 0


class ConfigChange(ResponseModel):
    """The effects of a change. `revision` is the newest revision: a new one if `applied`."""

    revision: int
    applied: bool
    differences: list[ConfigDifference]
    stranded: list[StrandedWork]
    restart_needed: list[str] = Field(
        description="Changed keys that apply when the processes are started again"
    )


class ConfigRollback(RequestModel):
    """The earlier revision that applies again, as a new one."""

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
