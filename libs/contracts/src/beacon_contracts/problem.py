"""Errors over HTTP: RFC 9457 problem documents with a stable, machine-readable `code`."""

from typing import Any

from pydantic import ConfigDict, Field

from beacon_contracts.model import ResponseModel

CONTENT_TYPE = "application/problem+json"


def type_of(code: str) -> str:
    """The URI of a code. It identifies the section of `docs/errors.md` and is not an address."""
    return f"urn:beacon:error:{code}"


class FieldProblem(ResponseModel):
    """One error in the input, with its field."""

    field: str
    message: str
    code: str = "invalid"


class Problem(ResponseModel):
    """An RFC 9457 problem document; `code` is stable, and `type` is its URI (see `docs/errors.md`)."""

    model_config = ConfigDict(extra="allow", frozen=True)

    title: str
    status: int
    code: str
    type: str = Field(default_factory=lambda known: type_of(known.get("code", "")))
    detail: str
    instance: str | None = None
    errors: list[FieldProblem] | None = None
    retry_after_s: float | None = None

    def document(self) -> dict[str, Any]:
        """The JSON object, without empty fields."""
        return self.model_dump(mode="json", exclude_none=True)
