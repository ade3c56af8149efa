"""Base classes of all request and response models, and common field types."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, StringConstraints


class RequestModel(BaseModel):
    """Refuses unknown fields, so that a misspelled name is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ResponseModel(BaseModel):
    """Ignores unknown fields, because later versions add some."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def _in_utc(moment: datetime) -> datetime:
    """Not near the bounds of `datetime`, so that sums with it are within them."""
    if not 2 < moment.year < 9998:
        raise ValueError("is out of range")
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]

# A NUL cannot be stored in Postgres text; refusing it here keeps it a 422.
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")
]
