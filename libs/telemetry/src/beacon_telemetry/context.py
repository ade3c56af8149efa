"""The ids a log line carries, and the headers that carry them to the next service."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

REQUEST_ID_HEADER = "X-Request-Id"
JOB_ID_HEADER = "X-Job-Id"
TRACE_HEADER = "traceparent"

# Header name -> the log field that holds its value.
FIELD_OF_HEADER = {REQUEST_ID_HEADER: "request_id", JOB_ID_HEADER: "job_id", TRACE_HEADER: "trace"}


@contextmanager
def log_context(**fields: object) -> Iterator[None]:
    """Every log line inside, in this task and those it starts, carries these fields (job_id, …)."""
    with structlog.contextvars.bound_contextvars(**fields):
        yield


def request_id() -> str | None:
    """The id of the request being served, if there is one."""
    value = structlog.contextvars.get_contextvars().get("request_id")
    return None if value is None else str(value)


def outgoing_headers() -> dict[str, str]:
    """Headers for a call to another service, so that its log lines carry the same ids."""
    bound = structlog.contextvars.get_contextvars()
    return {header: str(bound[field]) for header, field in FIELD_OF_HEADER.items() if field in bound}
