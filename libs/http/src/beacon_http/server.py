"""The HTTP server of a process: uvicorn as a service. Its address is known once it has started."""

import asyncio
import logging
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import structlog
import uvicorn
from starlette.types import ASGIApp

from beacon_http.connections import ConnectionLimit, TrackedConnection
from beacon_http.open_files import connections_allowed
from beacon_http.overload import ConnectionLimitMiddleware
from beacon_lifecycle import TaskSet

log = structlog.get_logger(__name__)

_BACKLOG = 4096
# Longer than any of our clients keeps idle connections, so that the client closes first.
_KEEP_ALIVE_S = 120
_MAX_HEAD_BYTES = 65_536
_MAX_WEBSOCKET_MESSAGE_BYTES = 65_536  # clients need not send messages


class _RefusedWebSockets(logging.Filter):
    """Drops the error that uvicorn logs for each WebSocket that the application refuses."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.msg != "ASGI callable returned without completing handshake."


_REFUSED_WEBSOCKETS = _RefusedWebSockets()


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """`send_timeout_s`: time after which a client that reads nothing of its response is disconnected.

    `evict_after_s`: at the limit of connections, those without a request for so long are closed for new ones.
    """

    connections: int = 4_096
    head_timeout_s: float = 10.0
    send_timeout_s: float = 30.0
    evict_after_s: float = 5.0


DEFAULT_LIMITS = ServerLimits()


class HttpServer:
    """Serves one ASGI app. At a stop, open responses have `stop_grace_s` to complete; then `on_grace_over` is
    called, which may end them."""

    name = "http"

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str,
        port: int,
        ready_file: Path | None = None,
        limits: ServerLimits = DEFAULT_LIMITS,
        websockets: bool = False,
        stop_grace_s: float = 3.0,
        on_stop: Callable[[], None] = lambda: None,
        on_grace_over: Callable[[], None] = lambda: None,
        on_refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._host = host
        self._port = port
        self._ready_file = ready_file
        self._send_timeout_s = limits.send_timeout_s
        self._stop_grace_s = stop_grace_s
        self._on_stop = on_stop
        self._on_grace_over = on_grace_over
        self._limit = ConnectionLimit(
            connections_allowed(limits.connections),
            head_timeout_s=limits.head_timeout_s,
            evict_after_s=limits.evict_after_s,
            on_refused=on_refused,
        )
        self._server = _Uvicorn(self._config(app, websockets=websockets))
        logging.getLogger("uvicorn.error").addFilter(_REFUSED_WEBSOCKETS)
        self._tasks = TaskSet("http")
        self._task: asyncio.Task[None] | None = None

    def _config(self, app: ASGIApp, *, websockets: bool) -> uvicorn.Config:
        config = uvicorn.Config(
            ConnectionLimitMiddleware(app, self._limit),
            http="h11",  # limits the size of heads and reads no pipelined requests ahead (ADR 9)
            ws="websockets-sansio" if websockets else "none",
            h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
            ws_max_size=_MAX_WEBSOCKET_MESSAGE_BYTES,
            lifespan="off",
            log_config=None,
            log_level="warning",  # uvicorn logs the URL of each WebSocket, with its token, as info
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, round(self._stop_grace_s) + 1),
        )
        config.load()
        create_protocol = config.http_protocol_class

        def create_tracked(**options: Any) -> asyncio.Protocol:
            return TrackedConnection(self._limit, partial(create_protocol, **options))

        config.http_protocol_class = cast("type[asyncio.Protocol]", create_tracked)
        return config

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._limit.by_client)

    async def start(self) -> None:
        listener = _listen(self._host, self._port, self._send_timeout_s)
        self._task = self._tasks.spawn("serve", self._server.serve(sockets=[listener]))
        while not self._server.started:
            if self._task.done():
                await self._task
            await asyncio.sleep(0.005)
        url = _url(listener)
        log.info("listening", url=url, connections=self._limit.max_connections)
        if self._ready_file is not None:
            _write_atomically(self._ready_file, url)

    async def wait(self) -> None:
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Accept nothing new, give open responses their grace, then end them. Idempotent."""
        self._server.should_exit = True
        self._on_stop()
        if not await self._tasks.drain(self._stop_grace_s):
            self._on_grace_over()
            await self._tasks.drain(self._stop_grace_s + 2)
        await self._tasks.close()


class _Uvicorn(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """The supervisor handles signals."""
        yield


def _listen(host: str, port: int, send_timeout_s: float) -> socket.socket:
    """Accepted connections inherit the options of this socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux: ends connections whose clients do not read
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(send_timeout_s * 1_000))
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _write_atomically(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
