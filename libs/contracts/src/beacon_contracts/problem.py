"""Errors over HTTP: RFC 9457 problem documents with a stable, machine-readable `code`."""

from typing import Any

from pydantic import ConfigDict

from beacon_contracts.model import ResponseModel

CONTENT_TYPE = "application/problem+json"


class FieldProblem(ResponseModel):
    """One error in the input, with its field."""

    field: str
    message: str
    code: str = "invalid"


class Problem(ResponseModel):
    """An RFC 9457 problem document; `code` is stable."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    instance: str | None = None
    errors: list[FieldProblem] | None = None
    retry_after_s: float | None = None

    def document(self) -> dict[str, Any]:
        """The JSON object, without empty fields."""
        return self.model_dump(mode="json", exclude_none=True)
