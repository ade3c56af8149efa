"""`POST /api/v1/jobs` answered by the connection itself: one task, no framework, one write (decision 9).

Only for requests that come whole in one read, as nearly all do. What is out of the ordinary (a body that is
still on its way, HTTP/1.0, `Expect`, pipelining, a client that does not read) and every other route takes the
way of the framework, which has the same route with the same desk behind it.
"""

from dataclasses import dataclass
from time import perf_counter
from typing import Any

from beacon_http.direct import DirectCall, is_plain_post
from beacon_runner.application.submissions import SubmissionService
from beacon_runner.http.problems import refusal
from beacon_runner.http.stream_protocols import HttpLine
from beacon_telemetry import HttpMetrics, bind_request

PATH = "/api/v1/jobs"
_URL = PATH.encode()


@dataclass(frozen=True, slots=True)
class DirectLane:
    """What the connections share."""

    desk: SubmissionService
    metrics: HttpMetrics


def direct_line(lane: DirectLane) -> type[HttpLine]:
    """The protocol of connections on this lane, for the server to make one of each."""
    return type("SubmissionLine", (DirectLine,), {"lane": lane})


class DirectLine(HttpLine):
    lane: DirectLane
    _parts: list[bytes] | None = None  # of the body of a request for this lane, while a read is parsed

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._parts is not None:
            self._leave_to_framework(self._parts)

    def begin_request(self) -> None:
        if is_plain_post(self, _URL):
            self._parts = []
        else:
            super().begin_request()

    def take_body(self, body: bytes) -> None:
        if self._parts is None:
            super().take_body(body)
        else:
            self._parts.append(body)

    def end_request(self) -> None:
        if self._parts is None:
            super().end_request()
            return
        body, self._parts = b"".join(self._parts), None
        self.cycle = SubmissionCall(self)
        task = self.loop.create_task(self.cycle.answer(body))
        self.tasks.add(task)  # those that the server waits for when it stops
        task.add_done_callback(self.tasks.discard)

    def _leave_to_framework(self, parts: list[bytes]) -> None:
        """The rest of the body is still to come, unless the request was broken and has been refused."""
        self._parts = None
        if not self.transport.is_closing():
            super().begin_request()
            super().take_body(b"".join(parts))


class SubmissionCall(DirectCall):
    def __init__(self, line: DirectLine) -> None:
        super().__init__(line)
        self._lane = line.lane
        self._scope: Any = line.scope
        self._started = perf_counter()

    async def answer(self, body: bytes) -> None:
        request_id = bind_request(self._scope["headers"])
        try:
            reply = await self._lane.desk.submit_whole(self._scope, body)
        except Exception as error:  # noqa: BLE001 - the framework's handlers are not around this
            reply = refusal(error, PATH)
        self._lane.metrics.answered(PATH, "POST", reply.status, perf_counter() - self._started)
        self.send(reply, request_id)
