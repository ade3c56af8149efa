"""Events of a job: pages, server-sent events, WebSockets, and the tokens that open WebSockets."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, WebSocket
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.events import EventPage
from beacon_contracts.ids import JobId, decode_job_id
from beacon_contracts.model import RequestModel, ResponseModel
from beacon_http.problems import HttpProblemError
from beacon_http.replies import view_response
from beacon_runner.application.events import JobEventService
from beacon_runner.domain.accounts.users import Principal
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.http.auth import ApiKeyCache, key_hash_of, principal_of, require_scope
from beacon_runner.http.cursors import JobPath
from beacon_runner.http.events.server_sent import EventStream
from beacon_runner.http.events.socket import EventSocket
from beacon_runner.http.events.user_streams import UserStreams
from beacon_runner.http.openapi import problems
from beacon_runner.http.problems import EXPECTED_ERRORS, problem_response
from beacon_runner.http.views import event_view
from beacon_runner.ports.events import WebSocketTokenStore

After = Annotated[int | None, Query(ge=0, le=2**31 - 1, description="Only events with greater numbers")]


class TicketRequest(RequestModel):
    job_id: str


class TicketView(ResponseModel):
    ticket: str
    expires_in_s: int


def event_routes(events: JobEventService, keys: ApiKeyCache, streams: UserStreams) -> APIRouter:
    routes = APIRouter(tags=["jobs"], route_class=require_scope(keys, Scope.USER))

    @routes.get(
        "/api/v1/jobs/{job_id}/events",
        responses={
            200: {
                "model": EventPage,
                "description": "A page as JSON, or server-sent events when asked for text/event-stream",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            **problems(401, 403, 404, 422, 429, 503),
        },
    )
    async def get_job_events(request: Request, job_id: JobPath, after: After = None) -> Response:
        """Past and future events; `Last-Event-ID` or `after` skip events that the client has.

        The last event of a stream is `STREAM_END`, whose data has the `reason`: `job_over`, or one after
        which the client should reconnect with its last number, such as `server_stopping`.
        """
        job = decode_job_id(job_id)
        owner = principal_of(request).owner
        if after is None:
            after = _event_number(request.headers.get("last-event-id", "0"), "Last-Event-ID")
        if "text/event-stream" not in request.headers.get("accept", ""):
            found, more = await events.page(job, owner, after)
            return view_response(EventPage(events=[event_view(job, event) for event in found], more=more))
        await events.jobs.get(job, owner)
        key_hash = key_hash_of(request.scope)
        followed = events.follow(job, owner, after, _check_access(keys, key_hash))
        return EventStream(job, followed, events.watch, streams.stream(principal_of(request)))

    return routes


def socket_routes(
    events: JobEventService, keys: ApiKeyCache, tokens: WebSocketTokenStore, streams: UserStreams
) -> APIRouter:
    routes = APIRouter(tags=["jobs"], route_class=require_scope(keys, Scope.USER))

    @routes.post(
        "/api/v1/tickets", responses={200: {"model": TicketView}, **problems(400, 401, 403, 404, 422, 503)}
    )
    async def issue_websocket_token(request: Request, wanted: TicketRequest) -> Response:
        """A token that opens one WebSocket to one job within 30 s: `/ws/{job_id}?ticket=…`."""
        job = decode_job_id(wanted.job_id)
        await events.jobs.get(job, principal_of(request).owner)
        token = await tokens.issue(key_hash_of(request.scope), job)
        return view_response(TicketView(ticket=token.text, expires_in_s=token.expires_in_s))

    @routes.websocket("/ws/{job_id}")
    async def watch(socket: WebSocket, job_id: str, after: str = "0", ticket: str | None = None) -> None:
        """The events of a job as JSON messages, from `after` on."""
        try:
            last = _event_number(after, "after")
            if ticket is None:  # before anything about the job is disclosed
                await keys.require(socket.scope, Scope.USER)
            job = decode_job_id(job_id)
            key_hash = await _key_of(socket, tokens, ticket, job)
            check_access = _check_access(keys, key_hash)
            principal = await check_access()
            owner = principal.owner
            await events.jobs.get(job, owner)
            async with streams.stream(principal):
                await socket.accept()
                followed = events.follow(job, owner, last, check_access)
                await EventSocket(socket, job, events.watch).serve(followed)
        except EXPECTED_ERRORS as error:
            await socket.send_denial_response(problem_response(error, socket.url.path).response())

    return routes


async def _key_of(socket: WebSocket, tokens: WebSocketTokenStore, ticket: str | None, job: JobId) -> bytes:
    """The hash of the key that opens this socket: its own, or that of its token."""
    if ticket is None:
        return key_hash_of(socket.scope)
    key_hash = await tokens.redeem(ticket, job)
    if key_hash is None:
        detail = "this ticket is unknown, used, expired or for another job; request another"
        raise HttpProblemError(401, "invalid_ticket", detail)
    return key_hash


def _check_access(keys: ApiKeyCache, key_hash: bytes) -> Callable[[], Awaitable[Principal]]:
    """Called during a stream: a revoked key ends the streams that it has opened."""
    return partial(keys.require_key, key_hash, Scope.USER)


def _event_number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidFieldsError.of(name, "must be the number of an event")
    return int(text)
