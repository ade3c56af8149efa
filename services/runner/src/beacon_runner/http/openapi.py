"""What the OpenAPI document says that annotations cannot: raw bodies, headers, problems, examples."""

from typing import Any

from beacon_contracts.jobs import BatchSubmission, job_submission
from beacon_http.openapi import REFERENCE, ProblemExamples

EXAMPLES: dict[str, Any] = {
    "matrix": {
        "summary": "Every question to every model in every region",
        "value": {
            "kind": "matrix",
            "name": "bias check",
            "questions": [{"id": "q1", "prompt": "Who should govern?"}],
            "models": ["llama3.2-1b", {"id": "qwen2.5-1.5b", "regions": ["EU"]}],
            "regions": ["US", "EU", "ASIA"],
            "params": {"temperature": 0.1, "max_tokens": 256},
            "failover": "any",
        },
    },
    "pipeline": {
        "summary": "A configured feature: one step after another",
        "value": {
            "kind": "pipeline",
            "feature": "full_pipeline",
            "input": {"prompt": "A futuristic city"},
        },
    },
    "generation": {
        "summary": "One model, one prompt",
        "value": {"kind": "generation", "model": "flux", "prompt": "cat", "duration": 10, "region": "US"},
    },
}

SUBMIT_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/JobSubmission"}, "examples": EXAMPLES}
    },
}

BATCH_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/BatchSubmission"},
            "example": {"jobs": [EXAMPLES["generation"]["value"], EXAMPLES["matrix"]["value"]]},
        }
    },
}

IDEMPOTENCY_HEADER: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key and body again: the same job and 200; another body: 409",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
}

OPEN: dict[str, Any] = {"security": [{}]}  # a route that needs no key

_PROBLEM_EXAMPLES: dict[int, tuple[str, str]] = {
    400: ("invalid_json", "the body is not JSON: EOF while parsing a value at line 1 column 8"),
    401: ("unknown_key", "this key is unknown, expired or revoked"),
    402: ("not_enough_credit", "going first costs 3, and you have 1"),
    403: ("scope_missing", "this needs a key with the scope admin"),
    404: ("unknown_job", "there is no such job among yours"),
    408: ("body_too_slow", "the body was not here after 30 s"),
    409: ("wrong_state", "a job that is completed cannot be cancelled"),
    413: ("body_too_large", "the body may have 1048576 bytes"),
    422: ("invalid_field", "models[0]: there is no model 'gpt-9'; known are llama3.2-1b, flux"),
    429: ("retries_used_up", "this execution was retried 3 of 3 times"),
    503: ("database_unavailable", "the database does not answer; repeat the request"),
}
_FIVE = "a user of tier supporter may have 5 pending jobs"
_SPLIT = "no wait makes room for it; split it into batches of at most 5"
_BATCH_EXAMPLES: dict[int, tuple[str, str]] = {
    422: ("batch_exceeds_limit", f"{_FIVE}, and this batch has 30: {_SPLIT}"),
    429: ("pending_jobs_limit", f"{_FIVE}; you have 3, and this batch has 4"),
}

problems = ProblemExamples(_PROBLEM_EXAMPLES)
batch_problems = ProblemExamples(_PROBLEM_EXAMPLES | _BATCH_EXAMPLES)

RAW_BODIES = {
    "JobSubmission": job_submission.json_schema(ref_template=REFERENCE),
    "BatchSubmission": BatchSubmission.model_json_schema(ref_template=REFERENCE),
}
KEYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
