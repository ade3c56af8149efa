"""All executions of a job as JSON lines or CSV, streamed in batches."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from beacon_contracts.accounts import Scope
from beacon_contracts.ids import decode_job_id
from beacon_contracts.jobs import ExecutionView
from beacon_runner.application.files import joined
from beacon_runner.application.jobs import ExecutionSlice, JobService
from beacon_runner.http.auth import ApiKeyCache, principal_of, require_scope
from beacon_runner.http.csv_text import csv_lines
from beacon_runner.http.cursors import JobPath
from beacon_runner.http.openapi import problems
from beacon_runner.http.views import execution_page

_COLUMNS = (
    "execution_id",
    "stage",
    "item",
    "model",
    "region",
    "actual_region",
    "backend",
    "state",
    "attempt",
    "output",
    "failure_code",
    "failure_message",
    "started_at",
    "finished_at",
    "queued_s",
    "load_s",
    "run_s",
    "tokens_in",
    "tokens_out",
)

Encoder = Callable[[Sequence[ExecutionView]], bytes]


def export_routes(jobs: JobService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(tags=["jobs"], route_class=require_scope(keys, Scope.USER))

    @routes.get(
        "/api/v1/jobs/{job_id}/results.jsonl",
        response_class=Response,
        responses={
            200: {
                "content": {"application/jsonl": {"schema": {"type": "string"}}},
                "description": "An execution per line",
            },
            **problems(401, 403, 404, 422, 503),
        },
    )
    async def export_job_lines(request: Request, job_id: JobPath) -> Response:
        """All executions of the job as JSON lines, each as `GET /api/v1/executions/{id}` shows it."""
        return await _export(
            jobs, request, job_id, encode=_json_lines, suffix="jsonl", media_type="application/jsonl"
        )

    @routes.get(
        "/api/v1/jobs/{job_id}/results.csv",
        response_class=Response,
        responses={
            200: {
                "content": {"text/csv": {"schema": {"type": "string"}}},
                "description": "An execution per row",
            },
            **problems(401, 403, 404, 422, 503),
        },
    )
    async def export_job_table(request: Request, job_id: JobPath) -> Response:
        """All executions of the job as CSV; a cell that a spreadsheet would compute gets an apostrophe."""
        return await _export(
            jobs,
            request,
            job_id,
            encode=_csv_rows,
            suffix="csv",
            media_type="text/csv; charset=utf-8",
            head=csv_lines([_COLUMNS]).encode(),
        )

    return routes


async def _export(
    jobs: JobService,
    request: Request,
    job_id: str,
    *,
    encode: Encoder,
    suffix: str,
    media_type: str,
    head: bytes = b"",
) -> Response:
    slices = jobs.results(decode_job_id(job_id), principal_of(request).owner)
    pieces = _pieces(slices, encode)
    first = await anext(pieces)  # before the response begins: an unknown job is a 404
    disposition = f'attachment; filename="{job_id}.{suffix}"'
    headers = {"content-disposition": disposition, "cache-control": "no-store"}
    return StreamingResponse(joined(head + first, pieces), 200, headers, media_type=media_type)


async def _pieces(slices: AsyncGenerator[ExecutionSlice], encode: Encoder) -> AsyncGenerator[bytes]:
    async with aclosing(slices):
        async for found in slices:
            yield encode(execution_page(found).executions)


def _json_lines(executions: Sequence[ExecutionView]) -> bytes:
    return b"".join(view.__pydantic_serializer__.to_json(view) + b"\n" for view in executions)


def _csv_rows(executions: Sequence[ExecutionView]) -> bytes:
    return csv_lines(_row(view) for view in executions).encode()


def _row(view: ExecutionView) -> tuple[object, ...]:
    failure, timing = view.failure, view.timing
    return (
        view.id,
        view.stage,
        view.item,
        view.model,
        view.region,
        view.actual_region,
        view.backend,
        str(view.state),
        view.attempt,
        _text(view.output),
        failure and failure.code,
        failure and failure.message,
        view.started_at and view.started_at.isoformat(),
        view.finished_at and view.finished_at.isoformat(),
        timing and timing.queued_s,
        timing and timing.load_s,
        timing and timing.run_s,
        view.tokens_in,
        view.tokens_out,
    )


def _text(output: Any) -> str | None:
    """The text of an answer; any other output as JSON."""
    if output is None or isinstance(output, str):
        return output
    if isinstance(output, dict) and set(output) == {"text"} and isinstance(output["text"], str):
        return output["text"]
    return orjson.dumps(output).decode()
