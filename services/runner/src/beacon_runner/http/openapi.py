"""Parts of the OpenAPI document that annotations cannot express: raw bodies, headers, problems, examples."""

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
    "input": {
        "summary": "One model, any input; an uploaded file by its id",
        "value": {
            "kind": "generation",
            "model": "flux",
            "input": {"prompt": "with a hat", "image": {"file": "file_01k9x7p4f8q2r6s0t3v5w7y9za"}},
        },
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
    "description": "A repeated key with the same body returns the same job with 200; with another body 409",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
}

PREFER_HEADER: dict[str, Any] = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "`wait=N`: 200 with the job if it ends within N seconds (at most 60), else 202",
    "schema": {"type": "string"},
}

DEMAND_EXAMPLE: dict[str, Any] = {
    "target_wait_s": 60.0,
    "total": {"waiting": 31, "running": 2, "gpu_seconds": 371.5, "slots": 2, "slots_needed": 7},
    "models": [
        {
            "model": "flux",
            "region": "US",
            "waiting": 31,
            "running": 2,
            "gpu_seconds": 371.5,
            "slots": 2,
            "slots_needed": 7,
            "run_s": 11.6,
            "load_s": 4.2,
            "wait_p50_s": 168.0,
            "wait_p90_s": 201.0,
        }
    ],
    "unavailable_routers": [],
}

NO_KEY: dict[str, Any] = {"security": [{}]}  # for routes that need no key

_PROBLEM_EXAMPLES: dict[int, tuple[str, str]] = {
    400: ("invalid_json", "the body is not JSON: EOF while parsing a value at line 1 column 8"),
    401: ("unknown_key", "this key is unknown, expired or revoked"),
    402: ("insufficient_credit", "a skip costs 3; your credit is 1"),
    403: ("missing_scope", "this needs a key with the scope admin"),
    404: ("unknown_job", "you have no job with this id"),
    408: ("body_too_slow", "the body was not received within 30 s"),
    409: ("wrong_state", "a job that is completed cannot be cancelled"),
    412: ("config_changed", "the newest revision is 8; read it and repeat the change"),
    413: ("body_too_large", "the body is larger than 1048576 bytes, the limit"),
    415: (
        "unsupported_encoding",
        "the Content-Encoding gzip is not supported: send the bytes of the file themselves",
    ),
    416: ("range_not_satisfiable", "the file has 1024 bytes"),
    422: ("invalid_field", "models[0]: there is no model 'gpt-9'; known are llama3.2-1b, flux"),
    428: ("if_match_required", "send If-Match with the ETag of GET /admin/config"),
    429: ("retries_exhausted", "this execution was retried 3 of 3 times"),
    503: ("database_unavailable", "the database does not answer; repeat the request"),
}
_RULE = "a user of tier supporter may have 5 pending jobs"
_HINT = "no wait makes room for it; split it into requests of at most 5"
_BATCH_EXAMPLES: dict[int, tuple[str, str]] = {
    422: ("batch_exceeds_limit", f"{_RULE}, and this request has 30: {_HINT}"),
    429: ("pending_jobs_limit", f"{_RULE}; you have 3, and this batch has 4"),
}

_OF_KEYS = {429: ("too_many_wrong_keys", "this address has sent 30 wrong keys; wait before you try another")}

problems = ProblemExamples(_PROBLEM_EXAMPLES, _OF_KEYS)
batch_problems = ProblemExamples(_PROBLEM_EXAMPLES | _BATCH_EXAMPLES, _OF_KEYS)

RAW_BODIES = {
    "JobSubmission": job_submission.json_schema(ref_template=REFERENCE),
    "BatchSubmission": BatchSubmission.model_json_schema(ref_template=REFERENCE),
}
KEYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
