"""Routes of operations on many jobs, and of deletions."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.ids import OPERATION, OperationId, UserId, decode_id, decode_job_id, encode_id
from beacon_contracts.ids import USER as USER_PREFIX
from beacon_contracts.operations import BulkRequest, OperationState, OperationView
from beacon_http.replies import view_response
from beacon_runner.application.operations import OperationService
from beacon_runner.domain.jobs.operations import JobOperation
from beacon_runner.http.admin.user_routes import UserPath
from beacon_runner.http.auth import ApiKeyCache, principal_of, require_scope
from beacon_runner.http.cursors import JobPath, read_user
from beacon_runner.http.openapi import problems

OperationPath = Annotated[str, Path(examples=["op_01k9x7p4f8q2r6s0t3v5w7y9za"], max_length=80)]


def operation_view(operation: JobOperation) -> OperationView:
    jobs = operation.selection.jobs
    return OperationView(
        operation_id=encode_id(OPERATION, operation.id),
        action=operation.action,
        state=OperationState.RUNNING if operation.finished_at is None else OperationState.FINISHED,
        matched=operation.matched,
        changed=operation.changed,
        total=None if jobs is None else len(set(jobs)),
        created_at=operation.created_at,
        finished_at=operation.finished_at,
    )


def _started(operation: JobOperation) -> Response:
    view = operation_view(operation)
    response = view_response(view, 202)
    response.headers["location"] = f"/api/v1/operations/{view.operation_id}"
    return response


def operation_routes(operations: OperationService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(tags=["jobs"], route_class=require_scope(keys, Scope.USER))

    @routes.post(
        "/api/v1/jobs/bulk",
        status_code=202,
        responses={202: {"model": OperationView}, **problems(400, 401, 403, 422, 503)},
    )
    async def change_jobs(request: Request, wanted: BulkRequest) -> Response:
        """Cancel, resume, retry or delete all jobs that match a filter, or given ones.

        The answer is an operation, whose progress `GET /api/v1/operations/{id}` shows. Jobs that are
        submitted later, and jobs in a state that does not allow the action, are not changed.
        """
        principal = principal_of(request)
        owner: UserId | None = principal.user
        chosen = wanted.filter
        if chosen is not None and (chosen.all_users or chosen.user is not None):
            await keys.require(request.scope, Scope.ADMIN)
            owner = None if chosen.user is None else read_user(chosen.user)
        return _started(await operations.bulk(principal, wanted, owner))

    @routes.get(
        "/api/v1/operations/{operation_id}",
        responses={200: {"model": OperationView}, **problems(401, 403, 404, 422, 503)},
    )
    async def get_operation(request: Request, operation_id: OperationPath) -> Response:
        """The progress of an operation."""
        operation = OperationId(decode_id(OPERATION, operation_id))
        return view_response(operation_view(await operations.get(operation, principal_of(request).owner)))

    @routes.delete(
        "/api/v1/jobs/{job_id}",
        status_code=204,
        responses={204: {"description": "Deleted"}, **problems(401, 403, 404, 409, 422, 503)},
    )
    async def delete_job(request: Request, job_id: JobPath) -> Response:
        """Delete a job that has ended, with its executions, events and files."""
        await operations.delete_job(decode_job_id(job_id), principal_of(request))
        return Response(status_code=204)

    return routes


def user_deletion_routes(operations: OperationService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(prefix="/admin/users", tags=["users"], route_class=require_scope(keys, Scope.ADMIN))

    @routes.delete(
        "/{user_id}",
        status_code=202,
        responses={202: {"model": OperationView}, **problems(401, 403, 404, 409, 422, 503)},
    )
    async def delete_user(request: Request, user_id: UserPath) -> Response:
        """Delete a user with all jobs, files and keys. The ledger stays, without the name.

        The keys stop working and live jobs are cancelled at once; an operation deletes the rest.
        """
        user = UserId(decode_id(USER_PREFIX, user_id))
        operation = await operations.delete_user(user, principal_of(request))
        keys.clear()
        return _started(operation)

    return routes
