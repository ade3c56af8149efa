"""What the OpenAPI document says that annotations cannot: bodies, headers, problems, examples."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from beacon_contracts.inference import InferenceRequest
from beacon_contracts.problem import CONTENT_TYPE, Problem
from beacon_router.api.problems import TITLES

_REFERENCE = "#/components/schemas/{model}"

_EXAMPLE = {
    "request_id": "exe_01k9x7p4f8q2r6s0t3v5w7y9za.0.3",
    "model": "llama3.2-1b",
    "region": "EU",
    "input": {"prompt": "Why is the sky blue?"},
    "params": {"temperature": 0.1, "max_tokens": 256},
    "tier": "premium",
    "user_id": "user_01k9x7p4f8q2r6s0t3v5w7y9za",
    "failover": "any",
    "fence": 2,
    "timeout_s": 120,
}

ASK_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/InferenceRequest"},
            "examples": {
                "movable": {"summary": "Any region may finish it", "value": _EXAMPLE},
                "pinned": {
                    "summary": "Only this region, started within a minute or not at all",
                    "value": {**_EXAMPLE, "failover": "pinned", "start_by": 1_767_225_660.0},
                },
            },
        }
    },
}

PREFER_HEADER: dict[str, Any] = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "RFC 7240: `wait=N` answers 202 if it is not done after N s, `respond-async` at once",
    "schema": {"type": "string"},
    "examples": {"long poll": {"value": "wait=25"}, "no waiting": {"value": "respond-async"}},
}

_EXAMPLES: dict[int, tuple[str, str]] = {
    400: ("invalid_json", "the body is not JSON: unexpected end of data"),
    401: ("no_token", "send the service token as Authorization: Bearer"),
    403: ("wrong_token", "this is not the service token"),
    404: ("unknown_inference", "no inference exe_… is known here, or its result is gone"),
    409: ("stale_fence", "fence 1 is behind 2, which has taken exe_… over"),
    413: ("body_too_large", "the body may have 1048576 bytes"),
    422: ("unknown_model", "model: 'gpt-9' is not one of llama3.2-1b, flux"),
    429: ("queue_full", "100000 inferences wait already"),
    503: ("backends_down", "eu-1 failed too often or did not answer health checks"),
    504: ("start_by_passed", "no slot was free before start_by"),
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route, each with an example."""
    return {status: _problem(status) for status in statuses}


def _problem(status: int) -> dict[str, Any]:
    code, detail = _EXAMPLES[status]
    example: dict[str, Any] = {
        "type": "about:blank",
        "title": TITLES[status],
        "status": status,
        "code": code,
        "detail": detail,
    }
    if status in (429, 503):
        example["retry_after_s"] = 4.0
    return {
        "description": TITLES[status],
        "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}},
    }


def document_api(app: FastAPI) -> None:
    """Make `/openapi.json` complete: schemas of raw bodies, and how to authenticate."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            _add_schemas(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _add_schemas(document: dict[str, Any]) -> None:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for model in (InferenceRequest, Problem):
        schema = model.model_json_schema(ref_template=_REFERENCE)
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    components["securitySchemes"] = {"service_token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"service_token": []}]
