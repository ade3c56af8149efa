"""`/v1/chat/completions` and `/v1/models`, as OpenAI's clients call them."""

from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from beacon_contracts.accounts import Scope
from beacon_http.json_body import json_object
from beacon_http.plain_route import PlainRoute
from beacon_http.replies import Reply
from beacon_lifecycle import Clock
from beacon_runner.application.interactive import InteractiveService
from beacon_runner.domain.inputs.chat import parse_chat
from beacon_runner.http.auth import ApiKeyCache
from beacon_runner.http.openai.answers import model_document, model_list
from beacon_runner.http.openai.bodies import ChatBodies
from beacon_runner.http.openai.chat_response import ChatResponse
from beacon_runner.http.openai.errors import PREFIX

_COMPLETION: dict[str, Any] = {
    "description": "A completion, or server-sent events",
    "content": {
        "application/json": {"schema": {"type": "object"}},
        # The schema of one event, whose data is a chunk as OpenAI's clients know it, or [DONE].
        "text/event-stream": {"schema": {"type": "object", "properties": {"data": {"type": "string"}}}},
    },
}
_REQUEST: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["model", "messages"],
                "properties": {
                    "model": {"type": "string"},
                    "messages": {"type": "array", "items": {"type": "object"}},
                    "stream": {"type": "boolean"},
                },
                "additionalProperties": True,
            },
            "example": {
                "model": "llama3.2-1b",
                "messages": [{"role": "user", "content": "Why is the sky blue?"}],
                "stream": True,
            },
        }
    },
}
_REGION: dict[str, Any] = {
    "name": "X-Beacon-Region",
    "in": "header",
    "required": False,
    "description": "Run there and nowhere else; without it, wherever the wait is shortest",
    "schema": {"type": "string"},
    "example": "EU",
}
_TEXT = {"type": "string"}
_MODEL_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"id": _TEXT, "object": _TEXT}}
_MODEL_LIST_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"object": _TEXT, "data": {"type": "array", "items": _MODEL_SCHEMA}},
}
_ERROR_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": _TEXT,
                "type": _TEXT,
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "integer", "null"]},
            },
        }
    },
}
_ERROR = {
    "content": {
        "application/json": {
            "schema": _ERROR_SCHEMA,
            "example": {
                "error": {
                    "message": "The model 'gpt-9' does not exist here",
                    "type": "invalid_request_error",
                    "param": "model",
                    "code": "model_not_found",
                }
            },
        }
    }
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": why, **_ERROR}
    for status, why in (
        (400, "Bad input"),
        (401, "Unknown key"),
        (403, "Scope missing"),
        (404, "Unknown model"),
        (408, "Request timeout"),
        (413, "Too large"),
        (415, "The body is compressed"),
        (422, "The backend does not accept the request"),
        (429, "Too many requests"),
        (502, "The backend failed"),
        (503, "Unavailable"),
        (504, "Timed out"),
    )
}


def openai_routes(
    service: InteractiveService, keys: ApiKeyCache, clock: Clock, bodies: ChatBodies
) -> APIRouter:
    routes = APIRouter(prefix=PREFIX, tags=["openai"])

    async def create_chat_completion(request: Request) -> ASGIApp:
        principal = await keys.require(request.scope, Scope.USER)
        body, memory = await bodies.read(request, principal.user)
        try:
            chat = parse_chat(json_object(body))
            inference = service.request_of(principal, chat, request.headers.get("x-beacon-region"))
            memory.resize(len(inference.body))
        except BaseException:
            memory.release()
            raise
        run = partial(service.run, principal, inference)
        return ChatResponse(run, memory, clock, stream=chat.stream, include_usage=chat.include_usage)

    routes.add_api_route(
        "/chat/completions",
        create_chat_completion,
        methods=["POST"],
        route_class_override=PlainRoute,
        summary="A chat completion, complete or streamed",
        operation_id="create_chat_completion",
        responses={200: _COMPLETION, **_ERRORS},
        openapi_extra={"requestBody": _REQUEST, "parameters": [_REGION]},
    )

    @routes.get(
        "/models",
        summary="List the models",
        operation_id="list_chat_models",
        responses={
            200: _json("The models", _MODEL_LIST_SCHEMA),
            401: _ERRORS[401],
            403: _ERRORS[403],
            429: _ERRORS[429],
        },
    )
    async def list_chat_models(request: Request) -> Response:
        principal = await keys.require(request.scope, Scope.USER)
        return Reply(200, model_list(service.models(principal.tier))).response()

    @routes.get(
        "/models/{name:path}",
        summary="One model",
        operation_id="get_chat_model",
        responses={
            200: _json("The model", _MODEL_SCHEMA),
            401: _ERRORS[401],
            403: _ERRORS[403],
            404: _ERRORS[404],
            429: _ERRORS[429],
        },
    )
    async def get_chat_model(request: Request, name: str) -> Response:
        principal = await keys.require(request.scope, Scope.USER)
        service.check_listed(name, principal.tier)
        return Reply(200, model_document(name)).response()

    return routes


def _json(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
