"""The base of every shape: closed to unknown fields, immutable."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints


class RequestModel(BaseModel):
    """What comes in: unknown fields are refused, so that a typing mistake is an error and not a silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ResponseModel(BaseModel):
    """What goes out: clients must accept fields that later versions add."""

    model_config = ConfigDict(extra="ignore", frozen=True)


# A NUL cannot be stored in Postgres text; refusing it here keeps it a 422.
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")
]
