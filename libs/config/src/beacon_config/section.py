"""The base of all sections, and their numbers."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class Section(BaseModel):
    """A section of the file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Seconds = Annotated[float, Field(ge=0, le=31_536_000)]
PositiveSeconds = Annotated[float, Field(gt=0, le=31_536_000)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
FileBytes = Annotated[int, Field(ge=1, le=2**50)]
RESTART: Final[dict[str, JsonValue]] = {"restart": True}
"""Marks a key that processes read only when they start; all others apply while they run."""
