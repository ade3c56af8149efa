"""Where inference runs: regions, groups, backends, models."""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, HttpUrl

from beacon_contracts.model import Name


class Section(BaseModel):
    """A section of the file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Seconds = Annotated[float, Field(ge=0, le=31_536_000)]
PositiveSeconds = Annotated[float, Field(gt=0, le=31_536_000)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Dialect(StrEnum):
    """The wire format of a backend."""

    MODAL = "modal"
    OPENAI = "openai"
    EXECUTE = "execute"


class RegionConfig(Section):
    aliases: list[Name] = Field(default_factory=list)
    concurrency: Count | None = Field(
        default=None, description="Concurrent runs; default: the sum of its backends' slots"
    )


class GroupConfig(Section):
    cap: Count


class BackendConfig(Section):
    region: Name
    dialect: Dialect
    url: HttpUrl
    models: Annotated[list[Name], Field(min_length=1)]
    slots: Annotated[int, Field(ge=1, le=100_000)] = 1
    loaded_models: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=1, description="Number of models that stay loaded"
    )
    group: Name | None = None
    health_url: HttpUrl | None = None
    api_key_env: str | None = Field(default=None, description="The variable that holds the backend's key")


def backend_url_variable(backend: str) -> str:
    """`us-1` is overridden by BEACON_BACKEND_US_1_URL."""
    return f"BEACON_BACKEND_{re.sub('[^A-Z0-9]', '_', backend.upper())}_URL"


class ModelConfig(Section):
    expected_load_s: Seconds = 5.0
    expected_run_s: Seconds = 5.0
    load_timeout_s: PositiveSeconds | None = None
    run_timeout_s: PositiveSeconds | None = None
    limit: Count | None = Field(default=None, description="Concurrent runs in all regions")
    exclusive: bool = Field(default=False, description="One run at a time per region")
    max_duration_s: PositiveSeconds | None = None
    size: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="The field of params or input that gives the size of a request"
    )
