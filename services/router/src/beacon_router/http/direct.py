"""`POST /inference` answered by the connection itself: no task, no framework, one write (docs/decisions).

What is out of the ordinary (no length, HTTP/1.0, `Expect`, pipelining, a client that does not read) and every
other route takes the way of the framework, which has the same route with the same desk behind it.
"""

from dataclasses import dataclass
from time import perf_counter
from typing import Any

from starlette.types import Scope

from beacon_http.bodies import announced_length, too_slow
from beacon_http.direct import CLOSE, DirectCall, is_plain_post
from beacon_http.replies import Reply
from beacon_lifecycle.http_readers import WatchedReaders
from beacon_router.http.inference_handler import InferenceHandler
from beacon_router.http.problems import refusal
from beacon_router.service.dispatcher import Dispatcher, stopping
from beacon_router.service.waiters import Wait
from beacon_telemetry import HttpMetrics, request_id_of

PATH = "/inference"
_URL = PATH.encode()


@dataclass(frozen=True, slots=True)
class DirectLane:
    """What the connections share."""

    desk: InferenceHandler
    dispatcher: Dispatcher
    metrics: HttpMetrics
    body_bytes: int


def direct_protocol(lane: DirectLane) -> type[WatchedReaders]:
    """The protocol of connections on this lane, for the server to make one of each."""
    return type("InferenceProtocol", (DirectProtocol,), {"lane": lane})


class DirectProtocol(WatchedReaders):
    lane: DirectLane

    def begin_request(self) -> None:
        length = self._direct_length()
        if length is None:
            super().begin_request()
        else:
            self.cycle = InferenceCall(self, self.scope, length)
            self.cycle.begin()

    def take_body(self, body: bytes) -> None:
        if isinstance(self.cycle, InferenceCall):
            self.cycle.on_body(body)
        else:
            super().take_body(body)

    def end_request(self) -> None:
        if isinstance(self.cycle, InferenceCall):
            self.cycle.on_complete()
        else:
            super().end_request()

    def body_is_late(self) -> None:
        if isinstance(self.cycle, InferenceCall):
            self.cycle.refuse(too_slow(self.timeouts.body_s))
        else:
            super().body_is_late()

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(self.cycle, InferenceCall):
            self.cycle.hang_up()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server stops. A body that is not here yet will not be waited for: its sender is told."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.more_body:
            super().shutdown()
        elif isinstance(cycle, InferenceCall):
            cycle.keep_alive = False
            cycle.refuse(stopping())
        elif not cycle.response_started:
            self.transport.write(refusal(stopping(), self.scope["path"]).encoded(CLOSE))
            self.transport.close()

    def _direct_length(self) -> int | None:
        """How long the body of a request for this lane is; None: it is not for this lane."""
        if not is_plain_post(self, _URL):
            return None
        length = announced_length(self.scope)  # type: ignore[arg-type]
        return length if length is not None and length <= self.lane.body_bytes else None


class InferenceCall(DirectCall):
    more_body = True

    def __init__(self, protocol: DirectProtocol, scope: Any, length: int) -> None:
        super().__init__(protocol)
        self._scope: Scope = scope
        self._length = length
        self._lane = protocol.lane
        self._body: list[bytes] = []
        self._expecting = False
        self._wait: Wait | None = None
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

    def refuse(self, error: Exception) -> None:
        """An answer before the body is here; what still comes of it is dropped."""
        self._arrived()
        self._answer(refusal(error, PATH))

    def hang_up(self) -> None:
        self._arrived()
        if self._wait is not None:
            self._wait.forget()

    def _arrived(self) -> None:
        if self._expecting:
            self._expecting = False
            self._lane.dispatcher.arrived(self._length)

    def _answer(self, reply: Reply) -> None:
        if not self.response_complete:
            self._lane.metrics.answered(PATH, "POST", reply.status, perf_counter() - self._started)
            self.send(reply, request_id_of(self._scope["headers"]))
