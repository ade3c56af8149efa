"""The ids in the log context, and the headers that pass them to the next service."""

import structlog

REQUEST_ID_HEADER = "X-Request-Id"
JOB_ID_HEADER = "X-Job-Id"
TRACE_HEADER = "traceparent"

# Header name -> the log field that holds its value.
FIELD_OF_HEADER = {REQUEST_ID_HEADER: "request_id", JOB_ID_HEADER: "job_id", TRACE_HEADER: "trace"}


def outgoing_headers() -> dict[str, str]:
    """Headers for a request to another service, whose log lines then have the same ids."""
    bound = structlog.contextvars.get_contextvars()
    return {header: str(bound[field]) for header, field in FIELD_OF_HEADER.items() if field in bound}
