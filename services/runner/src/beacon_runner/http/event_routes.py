"""Events as they happen: server-sent events, WebSockets, and the tickets that open them."""

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
from beacon_runner.application.job_events import JobEventService
from beacon_runner.http.auth import ApiKeyCache, owner_of, shown_key
from beacon_runner.http.cursors import JobPath
from beacon_runner.http.event_socket import EventSocket
from beacon_runner.http.event_stream import EventStream
from beacon_runner.http.openapi import problems
from beacon_runner.http.problems import refusal
from beacon_runner.http.scopes import locked
from beacon_runner.http.stream_end import TOLD
from beacon_runner.http.websocket_tokens import Tickets
from beacon_runner.postgres.users import Principal

After = Annotated[int | None, Query(ge=0, le=2**31 - 1, description="Only events with greater numbers")]


class TicketRequest(RequestModel):
    job_id: str


class TicketView(ResponseModel):
    ticket: str
    expires_in_s: int


def event_routes(events: JobEventService, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(tags=["jobs"], route_class=locked(keys, Scope.USER))

    @routes.get(
        "/api/v1/jobs/{job_id}/events",
        responses={
            200: {
                "model": EventPage,
                "description": "A page as JSON, or server-sent events when asked for text/event-stream",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            **problems(401, 403, 404, 422, 503),
        },
    )
    async def job_events(request: Request, job_id: JobPath, after: After = None) -> Response:
        """What happened and what happens; `Last-Event-ID` or `after` skip what is known.

        The last event of a stream is `STREAM_END`, whose data has the `reason`: `job_over`, or one that asks
        the client to come back with the last number it has, such as `server_stopping`.
        """
        job = decode_job_id(job_id)
        still_allowed = _key_still_good(keys, shown_key(request.scope))
        owner = owner_of(await still_allowed())
        known = after if after is not None else _last_event_id(request)
        if "text/event-stream" not in request.headers.get("accept", ""):
            found, more = await events.page(job, owner, known)
            return view_response(EventPage(events=found, more=more))
        await events.jobs.record(job, owner)
        followed = events.follow(job, owner, known, still_allowed)
        return EventStream(followed, events.watchers)

    return routes


def socket_routes(events: JobEventService, keys: ApiKeyCache, tickets: Tickets) -> APIRouter:
    routes = APIRouter(tags=["jobs"], route_class=locked(keys, Scope.USER))

    @routes.post(
        "/api/v1/tickets", responses={200: {"model": TicketView}, **problems(400, 401, 403, 404, 422, 503)}
    )
    async def issue_ticket(request: Request, wanted: TicketRequest) -> Response:
        """A ticket that opens one WebSocket to one job within half a minute: `/ws/{job_id}?ticket=…`."""
        owner = owner_of(await keys.require(request.scope, Scope.USER))
        job = decode_job_id(wanted.job_id)
        await events.jobs.record(job, owner)
        ticket = await tickets.issue(shown_key(request.scope), job)
        return view_response(TicketView(ticket=ticket.text, expires_in_s=ticket.expires_in_s))

    @routes.websocket("/ws/{job_id}")
    async def watch(socket: WebSocket, job_id: str, after: str = "0", ticket: str | None = None) -> None:
        """The events of a job as JSON messages, from `after` on."""
        try:
            known = _event_number(after, "after")
            if ticket is None:  # nothing is said of a job to somebody without a key
                await keys.require(socket.scope, Scope.USER)
            job = decode_job_id(job_id)
            still_allowed = _key_still_good(keys, await _key_of(socket, tickets, ticket, job))
            owner = owner_of(await still_allowed())
            await events.jobs.record(job, owner)
        except TOLD as error:
            await socket.send_denial_response(refusal(error, socket.url.path).response())
            return
        await socket.accept()
        followed = events.follow(job, owner, known, still_allowed)
        await EventSocket(socket, events.watchers).serve(followed)

    return routes


async def _key_of(socket: WebSocket, tickets: Tickets, ticket: str | None, job: JobId) -> bytes:
    """The hash of the key that opens this socket: its own, or the one that its ticket stands for."""
    if ticket is None:
        return shown_key(socket.scope)
    key = await tickets.redeem(ticket, job)
    if key is None:
        detail = "this ticket is unknown, used, too old or for another job: get another"
        raise HttpProblemError(401, "ticket_used_up", detail)
    return key


def _key_still_good(keys: ApiKeyCache, key_hash: bytes) -> Callable[[], Awaitable[Principal]]:
    """A key that is revoked ends the streams that it has opened."""
    return partial(keys.require_key, key_hash, Scope.USER)


def _last_event_id(request: Request) -> int:
    return _event_number(request.headers.get("last-event-id", "0"), "Last-Event-ID")


def _event_number(told: str, name: str) -> int:
    if not (told.isascii() and told.isdigit() and len(told) < 10):
        raise HttpProblemError(422, "invalid_field", f"{name} must be the number of an event")
    return int(told)
