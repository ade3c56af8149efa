"""Events as they happen: server-sent events, WebSockets, and the tickets that open them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
import structlog
from fastapi import APIRouter, Query, Request, WebSocket
from starlette.responses import Response, StreamingResponse
from starlette.types import Send
from starlette.websockets import WebSocketDisconnect

from beacon_contracts.accounts import Scope
from beacon_contracts.events import JobEvent
from beacon_contracts.ids import JobId, UserId, read_job
from beacon_contracts.model import View
from beacon_runner.api.auth import KeyRing, owner_of
from beacon_runner.api.cursors import JobPath
from beacon_runner.api.documents import problems
from beacon_runner.api.events import EventDesk
from beacon_runner.api.problems import EXPECTED, HttpProblemError, refusal
from beacon_runner.api.replies import view_response
from beacon_runner.live import Tickets

log = structlog.get_logger(__name__)

SLOW_AFTER_S = 20.0
HEARTBEAT = b": still here\n\n"

REFUSALS: tuple[type[Exception], ...] = (HttpProblemError, *EXPECTED)

CLOSED_DONE = 1000
CLOSED_RESTART = 1012
CLOSED_SLOW = 1013

After = Annotated[int | None, Query(ge=0, le=2**31 - 1, description="Only events with greater numbers")]


class EventPage(View):
    events: list[JobEvent]
    more: bool


class TicketView(View):
    ticket: str
    expires_in_s: int


class PatientStream(StreamingResponse):
    """A stream that drops a client which takes nothing for too long; it can come back without loss."""

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(_bounded(send))
        except TimeoutError:
            log.info("slow_client_dropped", after_s=SLOW_AFTER_S)


def event_routes(events: EventDesk, keys: KeyRing) -> APIRouter:
    routes = APIRouter(tags=["jobs"])

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
        """What happened and what happens; `Last-Event-ID` or `after` skip what is known."""
        job = read_job(job_id)
        owner = owner_of(await keys.require(request.scope, Scope.USER))
        known = after if after is not None else _last_event_id(request)
        if "text/event-stream" not in request.headers.get("accept", ""):
            found, more = await events.page(job, owner, known)
            return view_response(EventPage(events=found, more=more))
        await events.jobs.record(job, owner)
        return PatientStream(
            _as_sse(events.follow(job, owner, known)),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    return routes


def socket_routes(events: EventDesk, keys: KeyRing, tickets: Tickets) -> APIRouter:
    routes = APIRouter(tags=["jobs"])

    @routes.post("/api/v1/tickets", responses={200: {"model": TicketView}, **problems(401, 403, 503)})
    async def issue_ticket(request: Request) -> Response:
        """A ticket that opens one WebSocket within half a minute: `/ws/{job_id}?ticket=…`."""
        owner = owner_of(await keys.require(request.scope, Scope.USER))
        ticket = await tickets.issue(owner)
        return view_response(TicketView(ticket=ticket.text, expires_in_s=ticket.expires_in_s))

    @routes.websocket("/ws/{job_id}")
    async def watch(socket: WebSocket, job_id: str, after: After = None, ticket: str | None = None) -> None:
        """The events of a job as JSON messages, from `after` on."""
        try:
            owner = await _owner(socket, keys, tickets, ticket)
            job = read_job(job_id)
            await events.jobs.record(job, owner)
        except REFUSALS as error:
            await socket.send_denial_response(refusal(error, socket.url.path).response())
            return
        await socket.accept()
        await _serve(socket, events, job, owner, after or 0)

    return routes


async def _owner(socket: WebSocket, keys: KeyRing, tickets: Tickets, ticket: str | None) -> UserId | None:
    if ticket is None:
        return owner_of(await keys.require(socket.scope, Scope.USER))
    good, owner = await tickets.redeem(ticket)
    if not good:
        raise HttpProblemError(401, "ticket_used_up", "this ticket is unknown, used or too old: get another")
    return owner


async def _serve(socket: WebSocket, events: EventDesk, job: JobId, owner: UserId | None, after: int) -> None:
    """Send until the job is over or the client is gone, whichever is first."""
    sending = asyncio.ensure_future(_send_all(socket, events, job, owner, after))
    gone = asyncio.ensure_future(_until_gone(socket))
    try:
        await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in (sending, gone):
            one.cancel()
        await asyncio.gather(sending, gone, return_exceptions=True)


async def _send_all(
    socket: WebSocket, events: EventDesk, job: JobId, owner: UserId | None, after: int
) -> None:
    try:
        async for event in events.follow(job, owner, after):
            if event is not None:
                async with asyncio.timeout(SLOW_AFTER_S):
                    await socket.send_text(event.model_dump_json())
    except TimeoutError:
        await socket.close(CLOSED_SLOW, "too slow: come back with ?after= the last number you have")
    except WebSocketDisconnect:
        return
    else:
        if events.watchers.closed:
            await socket.close(CLOSED_RESTART, "restarting: come back with ?after= the last number you have")
        else:
            await socket.close(CLOSED_DONE, "the job is over")


async def _until_gone(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _as_sse(events: AsyncIterator[JobEvent | None]) -> AsyncIterator[bytes]:
    async for event in events:
        yield HEARTBEAT if event is None else _sse(event)


def _sse(event: JobEvent) -> bytes:
    data = orjson.dumps(event.model_dump(mode="json"))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), data)


def _bounded(send: Send) -> Send:
    async def bounded(message: Any) -> None:
        async with asyncio.timeout(SLOW_AFTER_S):
            await send(message)

    return bounded


def _last_event_id(request: Request) -> int:
    told = request.headers.get("last-event-id", "0")
    if not (told.isascii() and told.isdigit() and len(told) < 10):
        raise HttpProblemError(422, "invalid_field", "Last-Event-ID must be the number of an event")
    return int(told)
