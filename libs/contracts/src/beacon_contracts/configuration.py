"""The live configuration: a document with a revision, which every process applies without a restart."""

from datetime import datetime
from typing import Any

from pydantic import Field

from beacon_contracts.model import RequestModel, ResponseModel


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
