"""The section [api]."""

from typing import Annotated

from pydantic import Field

from beacon_config.section import RESTART, Section


class ApiConfig(Section):
    """The runner's API."""

    cors_origins: list[Annotated[str, Field(pattern=r"^(\*|https?://[^/*\s]+)$")]] = Field(
        default_factory=list,
        description="Origins whose web pages may call the API; `*` allows all",
        json_schema_extra=RESTART,
    )
