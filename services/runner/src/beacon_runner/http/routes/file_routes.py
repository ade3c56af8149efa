"""Files: upload, list, download, signed addresses, deletion."""

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from beacon_contracts.accounts import Scope
from beacon_contracts.files import FilePage, FileUrl, FileView, content_path
from beacon_contracts.ids import FILE, FileId, decode_id, decode_job_id, encode_id, encode_job_id
from beacon_files import attachment
from beacon_http.replies import view_response
from beacon_runner.application.files import FileService, joined
from beacon_runner.application.jobs import JobService
from beacon_runner.domain.files.files import ARCHIVE, SIGNED_PATH, FileRecord, archive_target, file_target
from beacon_runner.domain.jobs.records import JobRecord
from beacon_runner.http.auth import ApiKeyCache, principal_of, require_scope
from beacon_runner.http.byte_ranges import read_range
from beacon_runner.http.cursors import Cursor, JobPath, PageSize, read_file_cursor
from beacon_runner.http.form_file import FormFile, require_plain
from beacon_runner.http.openapi import NO_KEY, problems
from beacon_runner.http.route import StrictRoute

FILES_PATH = "/api/v1/files"

Redirect = Annotated[
    bool, Query(description="false: the bytes are sent from here, for pages that may not load other origins")
]
FilePath = Annotated[str, Path(examples=["file_01k9x7p4f8q2r6s0t3v5w7y9za"], max_length=80)]
Expires = Annotated[int, Query(ge=0, le=2**53)]
Signature = Annotated[str, Query(max_length=200)]
_BYTES = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {"content": _BYTES, "description": "The bytes"},
    206: {"content": _BYTES, "description": "A range of them"},
}
_ARCHIVE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/zip": _BYTES["*/*"]}, "description": "The archive"}
}
_UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}}
            },
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    },
    "parameters": [
        {
            "name": "X-File-Name",
            "in": "header",
            "required": False,
            "description": "The name of a raw upload, percent-encoded",
            "schema": {"type": "string"},
        }
    ],
}


def file_routes(files: FileService, jobs: JobService, keys: ApiKeyCache) -> list[APIRouter]:
    return [_owner_routes(files, keys), _archive_routes(files, jobs, keys), _signed_routes(files, jobs)]


def _owner_routes(files: FileService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(prefix=FILES_PATH, tags=["files"], route_class=require_scope(keys, Scope.USER))

    @routes.post(
        "",
        status_code=201,
        responses={201: {"model": FileView}, **problems(400, 401, 403, 408, 413, 415, 422, 503)},
        openapi_extra=_UPLOAD_BODY,
    )
    async def upload_file(request: Request) -> Response:
        """One file: the body itself, or the part `file` of a form. The type follows from the content."""
        principal = principal_of(request)
        require_plain("Content-Encoding", request.headers.get("content-encoding", ""))
        content_type = request.headers.get("content-type", "")
        if content_type.lower().startswith("multipart/form-data"):
            form = FormFile(content_type, request.stream())
            await form.find()
            record = await files.upload(principal, form.name, form.chunks())
        else:
            name = unquote(request.headers.get("x-file-name", ""))
            record = await files.upload(principal, name, request.stream())
        return view_response(file_view(record), 201)

    @routes.get("", responses={200: {"model": FilePage}, **problems(401, 403, 422, 503)})
    async def list_files(request: Request, limit: PageSize = 100, cursor: Cursor = None) -> Response:
        """The user's files, newest first."""
        before = read_file_cursor(cursor)
        found = await files.page(principal_of(request).user, before, limit + 1)
        next_cursor = encode_id(FILE, found[limit - 1].id) if len(found) > limit else None
        views = [file_view(one) for one in found[:limit]]
        return view_response(FilePage(files=views, next_cursor=next_cursor))

    @routes.get("/{file_id}", responses={200: {"model": FileView}, **problems(401, 403, 404, 503)})
    async def get_file(request: Request, file_id: FilePath) -> Response:
        return view_response(file_view(await files.get(_file_id(file_id), principal_of(request).owner)))

    @routes.get(
        "/{file_id}/content",
        response_class=Response,
        responses={**_CONTENT, **problems(401, 403, 404, 416, 503)},
    )
    async def get_file_content(request: Request, file_id: FilePath, *, redirect: Redirect = True) -> Response:
        """The bytes; `Range` and `If-None-Match` are supported. 307 if the file store serves them itself."""
        record = await files.get(_file_id(file_id), principal_of(request).owner)
        return await _content(files, record, request, redirect=redirect)

    @routes.post("/{file_id}/url", responses={200: {"model": FileUrl}, **problems(401, 403, 404, 503)})
    async def sign_file_url(request: Request, file_id: FilePath) -> Response:
        """A path of this file that works without a key for a few minutes, for browsers and backends."""
        record = await files.get(_file_id(file_id), principal_of(request).owner)
        path, expires_at = await files.signed_path(file_target(record.id))
        return view_response(FileUrl(url=path, expires_at=expires_at))

    @routes.delete("/{file_id}", responses={200: {"model": FileView}, **problems(401, 403, 404, 409, 503)})
    async def delete_file(request: Request, file_id: FilePath) -> Response:
        """The file is returned as it was. 409 while a live job made it or uses it."""
        principal = principal_of(request)
        deleted = await files.delete(_file_id(file_id), principal.owner, by=principal.actor)
        return view_response(file_view(deleted))

    return routes


def _archive_routes(files: FileService, jobs: JobService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/jobs", tags=["files"], route_class=require_scope(keys, Scope.USER))

    @routes.get(
        "/{job_id}/files.zip",
        response_class=Response,
        responses={**_ARCHIVE, **problems(401, 403, 404, 503)},
    )
    async def get_job_files(request: Request, job_id: JobPath) -> Response:
        """All files that the job has made so far as one ZIP, streamed."""
        job = await jobs.get(decode_job_id(job_id), principal_of(request).owner)
        return await _archive(files, job)

    @routes.post(
        "/{job_id}/files.zip/url", responses={200: {"model": FileUrl}, **problems(401, 403, 404, 503)}
    )
    async def sign_job_files_url(request: Request, job_id: JobPath) -> Response:
        """A path of that ZIP that works without a key for a few minutes, for browsers."""
        job = await jobs.get(decode_job_id(job_id), principal_of(request).owner)
        path, expires_at = await files.signed_path(archive_target(job.id))
        return view_response(FileUrl(url=path, expires_at=expires_at))

    return routes


def _signed_routes(files: FileService, jobs: JobService) -> APIRouter:
    routes = APIRouter(prefix=SIGNED_PATH, tags=["files"], route_class=StrictRoute)

    @routes.get(
        "/{job_id}" + ARCHIVE,
        response_class=Response,
        responses={**_ARCHIVE, **problems(404, 422, 503)},
        openapi_extra=NO_KEY,
    )
    async def get_signed_job_files(job_id: JobPath, expires: Expires, signature: Signature) -> Response:
        """All files of a job as one ZIP by a signed address."""
        job = decode_job_id(job_id)
        await files.check_signed(archive_target(job), expires, signature)
        return await _archive(files, await jobs.get(job, None))

    @routes.get(
        "/{file_id}",
        response_class=Response,
        responses={**_CONTENT, **problems(404, 416, 422, 503)},
        openapi_extra=NO_KEY,
    )
    async def get_signed_file(
        request: Request,
        file_id: FilePath,
        expires: Expires,
        signature: Signature,
        *,
        redirect: Redirect = True,
    ) -> Response:
        """The bytes of a file by a signed address."""
        record = await files.signed(_file_id(file_id), expires, signature)
        return await _content(files, record, request, redirect=redirect)

    return routes


def file_view(record: FileRecord) -> FileView:
    file_id = encode_id(FILE, record.id)
    return FileView(
        id=file_id,
        name=record.name,
        content_type=record.content_type,
        bytes=record.size,
        sha256=record.sha256,
        created_at=record.created_at,
        expires_at=record.expires_at,
        url=content_path(file_id),
        job_id=None if record.job is None else encode_job_id(record.job),
    )


async def _content(files: FileService, record: FileRecord, request: Request, *, redirect: bool) -> Response:
    etag = f'"{record.sha256}"'
    known = request.headers.get("if-none-match", "")
    if etag in known or known.strip() == "*":
        return Response(status_code=304, headers={"etag": etag})
    url = await files.store_url(record) if redirect else None
    if url is not None:
        return RedirectResponse(url, 307)
    wanted = read_range(request.headers.get("range"), record.size)
    start, end = wanted or (0, record.size)
    headers = {
        "etag": etag,
        "accept-ranges": "bytes",
        "cache-control": "private, max-age=31536000, immutable",
        "content-length": str(end - start),
        # A browser saves the file and never runs it, whatever its bytes are.
        "content-disposition": attachment(record.name),
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
    }
    if wanted is not None:
        headers["content-range"] = f"bytes {start}-{end - 1}/{record.size}"
    pieces = files.content(record, start, end)
    first = await anext(pieces, b"")  # before the response begins: an unavailable store is a 503
    return StreamingResponse(
        joined(first, pieces),
        206 if wanted is not None else 200,
        headers,
        media_type=record.content_type,
    )


async def _archive(files: FileService, job: JobRecord) -> Response:
    pieces = files.archive(files.outputs_of(job))
    first = await anext(pieces, b"")  # before the response begins: an unavailable store is a 503
    name = archive_target(job.id)
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return StreamingResponse(joined(first, pieces), 200, headers, media_type="application/zip")


def _file_id(text: str) -> FileId:
    return FileId(decode_id(FILE, text))
