"""The HTTP server as a service: it has its address once started, and answers what is open before it stops."""

import asyncio
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from beacon_lifecycle.http_crowds import Crowd, connections_allowed, doorkeeper
from beacon_lifecycle.http_deadlines import ClientTimeouts
from beacon_lifecycle.http_readers import WatchedReaders
from beacon_lifecycle.tasks import TaskSet

log = structlog.get_logger(__name__)

# Longer than any client of ours keeps idle connections: the one that closes first is the client.
_KEEP_ALIVE_S = 120
# Bytes of one message over a WebSocket. Nobody is asked anything there, and uvicorn would hold 16 MB.
_MOST_SAID = 65_536


class _Uvicorn(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals belong to the supervisor."""
        yield


class HttpServer:
    """Serves one ASGI app. Open answers get `stop_grace_s` at the stop; then `on_grace_over` may end them."""

    name = "http"

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str,
        port: int,
        ready_file: Path | None = None,
        stop_grace_s: float = 3.0,
        on_stop: Callable[[], None] = lambda: None,
        on_grace_over: Callable[[], None] = lambda: None,
        protocol: type[HttpToolsProtocol] = WatchedReaders,
        timeouts: ClientTimeouts = WatchedReaders.timeouts,
        crowd: Crowd | None = None,
        websockets: type[asyncio.Protocol] | Literal["none"] = "none",
    ) -> None:
        self._host = host
        self._port = port
        self._ready_file = ready_file
        self._stop_grace_s = stop_grace_s
        self._on_stop = on_stop
        self._on_grace_over = on_grace_over
        self._crowd = crowd or Crowd(connections_allowed())
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                http=doorkeeper(protocol, timeouts, self._crowd),
                ws=websockets,
                ws_max_size=_MOST_SAID,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                backlog=4096,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, round(stop_grace_s) + 1),
            )
        )
        self._tasks = TaskSet("http")
        self._task: asyncio.Task[None] | None = None

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._server.server_state.connections)

    async def start(self) -> None:
        listener = _listen(self._host, self._port)
        self._task = self._tasks.spawn("serve", self._server.serve(sockets=[listener]))
        while not self._server.started:
            if self._task.done():
                await self._task
            await asyncio.sleep(0.005)
        url = _url(listener)
        log.info("listening", url=url, connections=self._crowd.most)
        if self._ready_file is not None:
            _write_whole(self._ready_file, url)

    async def wait(self) -> None:
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Take nothing new, give open answers their grace, then end them. Idempotent."""
        self._server.should_exit = True
        self._on_stop()
        if not await self._tasks.drain(self._stop_grace_s):
            self._on_grace_over()
            await self._tasks.drain(self._stop_grace_s + 2)
        await self._tasks.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _write_whole(path: Path, text: str) -> None:
    """Whoever waits for the file never reads half of it."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
