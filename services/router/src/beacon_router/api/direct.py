"""`POST /inference` answered by the connection itself: no task, no framework, one write (docs/decisions).

What is out of the ordinary (no length, HTTP/1.0, `Expect`, pipelining, a client that does not read) and every
other route takes the way of the framework, which has the same route with the same desk behind it.
"""

from asyncio import TimerHandle
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from starlette.types import Scope

from beacon_lifecycle.http_readers import WatchedReaders
from beacon_router.api.bodies import BodyRules
from beacon_router.api.desk import InferenceDesk
from beacon_router.api.problems import refusal
from beacon_router.dispatch.dispatcher import Dispatcher, stopping
from beacon_router.dispatch.waiting import Wait
from beacon_telemetry import HttpMetrics, request_id_of
from beacon_web.bodies import announced_length
from beacon_web.replies import Reply

PATH = "/inference"
_URL = PATH.encode()
_CLOSE = (b"connection", b"close")


@dataclass(frozen=True, slots=True)
class DirectLane:
    """What the connections share."""

    desk: InferenceDesk
    dispatcher: Dispatcher
    metrics: HttpMetrics
    bodies: BodyRules


def direct_protocol(lane: DirectLane, reader_timeout_s: float) -> type[WatchedReaders]:
    """The protocol of connections on this lane, for the server to make one of each."""
    shared = {"lane": lane, "reader_timeout_s": reader_timeout_s}
    return type("InferenceProtocol", (DirectProtocol,), shared)


class DirectProtocol(WatchedReaders):
    lane: DirectLane

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if isinstance(self.cycle, DirectCall) and self.cycle.more_body:
            self.cycle.await_the_rest()

    def begin_request(self) -> None:
        length = self._direct_length()
        if length is None:
            super().begin_request()
        else:
            self.cycle = DirectCall(self, self.scope, length, keep_alive=self.parser.should_keep_alive())
            self.cycle.begin()

    def on_body(self, body: bytes) -> None:
        if isinstance(self.cycle, DirectCall):
            self.cycle.on_body(body)
        else:
            super().on_body(body)

    def end_request(self) -> None:
        if isinstance(self.cycle, DirectCall):
            self.cycle.on_complete()
        else:
            super().end_request()

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(self.cycle, DirectCall):
            self.cycle.hang_up()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server stops. A body that is not here yet will not be waited for: its sender is told."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.more_body:
            super().shutdown()
        elif isinstance(cycle, DirectCall):
            cycle.keep_alive = False
            cycle.refuse(stopping())
        elif not cycle.response_started:
            self.transport.write(refusal(stopping(), self.scope["path"]).encoded(_CLOSE))
            self.transport.close()

    def _direct_length(self) -> int | None:
        """How long the body of a request for this lane is; None: it is not for this lane."""
        if self.url != _URL or self.parser.get_method() != b"POST" or self.parser.get_http_version() != "1.1":
            return None
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy or self.expect_100_continue or self.flow.write_paused:
            return None
        length = announced_length(self.scope)  # type: ignore[arg-type]
        return length if length is not None and length <= self.lane.bodies.most else None


class _Nobody:
    """Where the framework's cycle has an event, for a task that this one does not have."""

    def set(self) -> None: ...


class DirectCall:
    """One request and its answer. The attributes without an underscore are those uvicorn reads of a cycle."""

    message_event = _Nobody()
    response_complete = False
    disconnected = False
    more_body = True

    def __init__(self, protocol: DirectProtocol, scope: Any, length: int, *, keep_alive: bool) -> None:
        self.keep_alive = keep_alive
        self._protocol = protocol
        self._scope: Scope = scope
        self._length = length
        self._lane = protocol.lane
        self._body: list[bytes] = []
        self._expecting = False
        self._wait: Wait | None = None
        self._late: TimerHandle | None = None
        self._started = perf_counter()

    def begin(self) -> None:
        """Before the body is taken in: who asks, and whether there is room."""
        try:
            self._lane.desk.check(self._scope)
            self._lane.dispatcher.expect(self._length)
            self._expecting = True
        except Exception as error:  # noqa: BLE001 - the framework's handlers are not around this
            self.refuse(error)

    def on_body(self, body: bytes) -> None:
        if not self.response_complete:
            self._body.append(body)

    def on_complete(self) -> None:
        self.more_body = False
        if self.response_complete:
            return
        self._arrived()
        try:
            self._wait = self._lane.desk.take(self._scope, b"".join(self._body), self._answer)
        except Exception as error:  # noqa: BLE001
            self._answer(refusal(error, PATH))
        self._body.clear()

    def await_the_rest(self) -> None:
        """Most bodies come with their heads; the others get their time."""
        if self._expecting and self._late is None:
            self._late = self._protocol.loop.call_later(self._lane.bodies.within_s, self._be_late)

    def _be_late(self) -> None:
        self.keep_alive = False
        self.refuse(self._lane.bodies.too_slow())

    def refuse(self, error: Exception) -> None:
        """An answer before the body is here; what still comes of it is dropped."""
        self._arrived()
        self._answer(refusal(error, PATH))

    def hang_up(self) -> None:
        self._arrived()
        if self._wait is not None:
            self._wait.forget()

    def _arrived(self) -> None:
        if self._late is not None:
            self._late.cancel()
        if self._expecting:
            self._expecting = False
            self._lane.dispatcher.arrived(self._length)

    def _answer(self, reply: Reply) -> None:
        if self.response_complete:
            return
        self.response_complete = True
        more = [(b"x-request-id", request_id_of(self._scope["headers"]).encode())]
        if not self.keep_alive and _CLOSE not in reply.headers:
            more.append(_CLOSE)
        transport = self._protocol.transport
        transport.write(reply.encoded(*more))
        if not self.keep_alive:
            transport.close()
        self._lane.metrics.answered(PATH, "POST", reply.status, perf_counter() - self._started)
        self._protocol.on_response_complete()
