"""Additions to the OpenAPI document: schemas of raw bodies, problems with examples, authentication."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from beacon_contracts.problem import CONTENT_TYPE, Problem, type_of
from beacon_http.problems import TITLES

REFERENCE = "#/components/schemas/{model}"
_RETRYABLE = (429, 503)


class ProblemExamples:
    """The problems of a service by status, with an example of the code and the detail for each.

    `of_keys`: those of every route that checks a key, i.e. that documents 401.
    """

    def __init__(
        self,
        examples: Mapping[int, tuple[str, str]],
        of_keys: Mapping[int, tuple[str, str]] = MappingProxyType({}),
    ) -> None:
        self._examples = examples
        self._of_keys = of_keys

    def __call__(self, *statuses: int) -> dict[int | str, dict[str, Any]]:
        """The `responses` of a route."""
        examples = {status: self._examples[status] for status in statuses}
        if 401 in examples:
            examples = {**self._of_keys, **examples}
        return {status: self._response(status, *example) for status, example in examples.items()}

    def _response(self, status: int, code: str, detail: str) -> dict[str, Any]:
        example: dict[str, Any] = {
            "type": type_of(code),
            "title": TITLES[status],
            "status": status,
            "code": code,
            "detail": detail,
        }
        if status in _RETRYABLE:
            example["retry_after_s"] = 4.0
        schema = {"$ref": REFERENCE.format(model="Problem")}
        return {
            "description": TITLES[status],
            "content": {CONTENT_TYPE: {"schema": schema, "example": example}},
        }


def document_api(app: FastAPI, raw_bodies: Mapping[str, dict[str, Any]], keys: Mapping[str, Any]) -> None:
    """Add to `/openapi.json` the schemas of bodies that routes read as bytes, and the authentication."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            problem = {"Problem": Problem.model_json_schema(ref_template=REFERENCE)}
            _complete(document, {**raw_bodies, **problem}, keys)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(
    document: dict[str, Any], schemas: Mapping[str, dict[str, Any]], keys: Mapping[str, Any]
) -> None:
    components = document.setdefault("components", {})
    known = components.setdefault("schemas", {})
    for name, schema in schemas.items():
        known.update(schema.get("$defs", {}))
        known[name] = {field: value for field, value in schema.items() if field != "$defs"}
    components["securitySchemes"] = dict(keys)
    document["security"] = [{name: []} for name in keys]
    document["servers"] = [{"url": "/", "description": "the address that served this document"}]
