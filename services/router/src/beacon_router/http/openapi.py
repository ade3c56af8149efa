"""Parts of the OpenAPI document that annotations cannot express: bodies, headers, problems, examples."""

from typing import Any

from beacon_contracts.inference import BatchAnswer, InferenceBatch, InferenceRequest
from beacon_http.openapi import REFERENCE, ProblemExamples

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

INFERENCE_BODY: dict[str, Any] = {
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

BATCH_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/InferenceBatch"},
            "example": {"requests": [_EXAMPLE], "poll": ["exe_01k9x7p4f8q2r6s0t3v5w7y9za.0.4"]},
        }
    },
}

BATCH_ANSWERS: dict[str, Any] = {
    "description": "One line per entry, each as soon as it has an answer; 202 for those that still wait",
    "content": {"application/x-ndjson": {"schema": {"$ref": "#/components/schemas/BatchAnswer"}}},
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
    404: ("unknown_inference", "inference exe_… is unknown, or its result has expired"),
    408: ("body_too_slow", "the body was incomplete after 30 s, the limit; repeat the request"),
    409: ("stale_fence", "fence 1 of exe_… is lower than the current 2"),
    413: ("body_too_large", "the body is larger than 1048576 bytes, the limit"),
    422: ("unknown_model", "model: 'gpt-9' is not one of llama3.2-1b, flux"),
    429: ("queue_full", "the queue is full: 100000 inferences wait"),
    502: ("cancel_failed", "us-1: the backend answered 503"),
    503: ("backends_down", "eu-1 failed too often or did not answer health checks"),
    504: ("start_by_passed", "no slot was free before start_by"),
}


problems = ProblemExamples(_EXAMPLES)

RAW_BODIES = {
    model.__name__: model.model_json_schema(ref_template=REFERENCE)
    for model in (InferenceRequest, InferenceBatch, BatchAnswer)
}
KEYS = {"service_token": {"type": "http", "scheme": "bearer"}}
