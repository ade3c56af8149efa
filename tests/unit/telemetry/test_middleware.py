"""Request ids in and out, the access log, and the headers that carry ids to the next service."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import structlog
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from structlog.contextvars import bound_contextvars

from beacon_telemetry import HttpMetrics, TelemetryMiddleware, outgoing_headers

Lines = Callable[[], list[dict[str, Any]]]
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def show(_request: Request) -> Response:
    structlog.get_logger("app").info("inside")
    with bound_contextvars(job_id="j-9"):
        inner = outgoing_headers()
    return JSONResponse({"outgoing": outgoing_headers(), "inner": inner})


async def fail(_request: Request) -> Response:
    raise ConnectionError("no database")


async def own_id(_request: Request) -> Response:
    return Response(headers={"X-Request-Id": "made-up"})


async def healthz(_request: Request) -> Response:
    return Response("ok")


async def socket(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_json(outgoing_headers())
    await websocket.close()


async def refuse_socket(websocket: WebSocket) -> None:
    await websocket.close()


async def deny_socket(websocket: WebSocket) -> None:
    await websocket.send_denial_response(Response("no key", 401))


def app() -> TelemetryMiddleware:
    return TelemetryMiddleware(
        Starlette(
            routes=[
                Route("/show", show),
                Route("/fail", fail),
                Route("/own-id", own_id),
                Route("/healthz", healthz),
                WebSocketRoute("/ws", socket),
                WebSocketRoute("/no-ws", refuse_socket),
                WebSocketRoute("/denied-ws", deny_socket),
            ]
        ),
        HttpMetrics(CollectorRegistry(), "beacon"),
    )


async def get(path: str, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await client.get(path, headers=named)


async def test_an_id_is_taken_bound_and_sent_back(json_lines: Lines) -> None:
    response = await get("/show", x_request_id="r-1", x_job_id="j-1", traceparent=TRACE)
    assert response.headers["x-request-id"] == "r-1"
    assert response.json()["outgoing"] == {"X-Request-Id": "r-1", "X-Job-Id": "j-1", "traceparent": TRACE}
    assert response.json()["inner"]["X-Job-Id"] == "j-9"
    inside, access = json_lines()
    for line in (inside, access):
        assert (line["request_id"], line["job_id"], line["trace"]) == ("r-1", "j-1", TRACE)


async def test_a_missing_id_is_made_and_differs_each_time(json_lines: Lines) -> None:
    first, second = await get("/show"), await get("/show")
    assert len(first.headers["x-request-id"]) == 32
    assert first.headers["x-request-id"] == first.json()["outgoing"]["X-Request-Id"]
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


@pytest.mark.parametrize("bad", ["x" * 129, "two words", "caf\u00e9".encode().decode("latin-1")])
async def test_an_id_that_is_too_long_or_not_plain_is_not_taken(json_lines: Lines, bad: str) -> None:
    scope_headers = [(b"x-request-id", bad.encode("latin-1")), (b"traceparent", b"00-nonsense")]
    sent = await call_raw(scope_headers)
    returned = dict(sent[0]["headers"])[b"x-request-id"].decode()
    assert returned != bad
    assert "trace" not in json_lines()[-1]


async def call_raw(headers: list[tuple[bytes, bytes]]) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {"type": "http", "method": "GET", "path": "/show", "headers": headers, "query_string": b""}
    await app()(scope, receive, send)
    return sent


async def test_the_apps_own_id_header_is_replaced_not_doubled(json_lines: Lines) -> None:
    response = await get("/own-id", x_request_id="r-1")
    assert response.headers.get_list("x-request-id") == ["r-1"]


async def test_the_access_line_has_request_and_response(json_lines: Lines) -> None:
    await get("/show?secret=1")
    access = json_lines()[-1]
    assert (access["event"], access["method"], access["path"], access["status"]) == (
        "http_request",
        "GET",
        "/show",
        200,
    )
    assert access["duration_ms"] >= 0


async def test_health_checks_are_not_logged(json_lines: Lines) -> None:
    response = await get("/healthz")
    assert response.headers["x-request-id"]
    assert json_lines() == []


async def test_a_failed_request_is_logged_as_500_with_its_id(json_lines: Lines) -> None:
    await get("/fail", x_request_id="r-1")
    access = json_lines()[-1]
    assert (access["status"], access["request_id"]) == (500, "r-1")


async def test_nothing_of_a_request_is_left_for_the_next_in_the_same_context(json_lines: Lines) -> None:
    """A pipelined request starts in the context of the previous one."""
    seen: list[dict[str, str]] = []

    async def inner(_scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(outgoing_headers())
        structlog.contextvars.bind_contextvars(job_id="left behind")

    async def nothing() -> Message:
        raise AssertionError

    async def ignore(_message: Message) -> None: ...

    middleware = TelemetryMiddleware(inner, HttpMetrics(CollectorRegistry(), "beacon"), access_log=False)
    for number in (b"1", b"2"):
        scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"x-request-id", number)]}
        await middleware(scope, nothing, ignore)
    assert seen == [{"X-Request-Id": "1"}, {"X-Request-Id": "2"}]


async def test_requests_side_by_side_keep_their_own_ids(json_lines: Lines) -> None:
    responses = await asyncio.gather(*(get("/show", x_request_id=f"r-{n}") for n in range(20)))
    assert [response.json()["outgoing"]["X-Request-Id"] for response in responses] == [
        f"r-{n}" for n in range(20)
    ]


def test_web_sockets_carry_ids_too(json_lines: Lines) -> None:
    with TestClient(app()) as client:
        with client.websocket_connect("/ws", headers={"X-Request-Id": "r-1"}) as session:
            assert session.receive_json() == {"X-Request-Id": "r-1"}
        line = next(line for line in json_lines() if line["event"] == "http_request")
    assert (line["method"], line["path"], line["status"]) == ("WEBSOCKET", "/ws", 101)


def test_a_web_socket_that_is_not_accepted_is_logged_as_refused(json_lines: Lines) -> None:
    with TestClient(app()) as client, pytest.raises(WebSocketDisconnect), client.websocket_connect("/no-ws"):
        pass
    line = next(line for line in json_lines() if line["event"] == "http_request")
    assert (line["path"], line["status"]) == ("/no-ws", 403)


def test_a_denied_websocket_is_logged_with_its_status_and_id(json_lines: Lines) -> None:
    with (
        TestClient(app()) as client,
        pytest.raises(WebSocketDenialResponse) as denied,
        client.websocket_connect("/denied-ws", headers={"X-Request-Id": "r-1"}),
    ):
        pass
    assert denied.value.headers["x-request-id"] == "r-1"
    line = next(line for line in json_lines() if line["event"] == "http_request")
    assert (line["path"], line["status"]) == ("/denied-ws", 401)


def test_outside_a_request_there_is_nothing_to_carry() -> None:
    structlog.contextvars.clear_contextvars()
    assert outgoing_headers() == {}
