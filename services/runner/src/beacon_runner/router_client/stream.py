"""Runs one interactive request over an event stream of a router, over busy and lost routers."""

import asyncio
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import aiohttp
from pydantic import ValidationError

from beacon_contracts.inference import InferenceRequest, InferenceState, InferenceView
from beacon_lifecycle import Clock
from beacon_runner.domain.inputs.encoded_request import EncodedRequest
from beacon_runner.ports.interactive import InteractiveEvent, OnEvent, ResponseLost
from beacon_runner.router_client.endpoints import RouterEndpoint, RouterEndpoints
from beacon_runner.router_client.replies import (
    BusyReply,
    NoReply,
    RouterReply,
    answer_to_all,
    parse_reply,
)
from beacon_runner.router_client.router_call import RouterCall
from beacon_runner.router_client.transport import HttpAnswer, RouterExchangeError, RouterTransport

ROUTER_STOPPING = "router_stopping"  # the router's failure code: returned before it ran
RESTART_S = 1.0
NO_ROUTER = "no router answers"
MEDIA_TYPE = "text/event-stream"
_DATA = b"event: data\ndata: "


@dataclass(frozen=True, slots=True)
class InferenceStreams:
    """Each attempt has its own request id: a router cancels the run of a lost connection."""

    endpoints: RouterEndpoints
    transport: RouterTransport
    clock: Clock
    max_tries: int
    timeout_s: float
    silence_s: float

    async def run(self, request: EncodedRequest, headers: Mapping[str, str], on_event: OnEvent) -> None:
        """Until the terminal state; another router is tried until a part of the response has arrived."""
        reports = SilenceReports(request.head, on_event, self.silence_s)
        try:
            await self._run(request, headers, reports.pass_on)
        finally:
            await reports.end()

    async def _run(self, request: EncodedRequest, headers: Mapping[str, str], on_event: OnEvent) -> None:
        first_id = request.head.request_id
        call = RouterCall(request.head.region, self.max_tries)
        attempts = 0
        while True:
            attempts += 1
            if attempts > 1:
                request = request.with_id(f"{first_id}.{attempts}")
            endpoint = call.choose_router(self.endpoints, self.clock.now())
            exchange = Exchange(endpoint, request, on_event)
            await exchange.run(self.transport, headers, timeout_s=self.timeout_s)
            if isinstance(exchange.reply, InferenceView) and exchange.reply.state.terminal:
                endpoint.record_success()
                await on_event(exchange.reply)
                return
            if exchange.begun:
                raise ResponseLost(f"{endpoint.url}: {exchange.reply}")
            pause_s = call.apply(endpoint, exchange.reply, now=self.clock.now(), took_s=0.0)
            if pause_s > 0:
                await self.clock.sleep(pause_s)


class SilenceReports:
    """Passes events on. Until the response begins, reports a waiting request each time that no router has
    answered for `every_s`."""

    def __init__(self, request: InferenceRequest, on_event: OnEvent, every_s: float) -> None:
        self._request = request
        self._on_event = on_event
        self._every_s = every_s
        self._loop = asyncio.get_running_loop()
        self._newest: InferenceView | None = None
        self._silent_since = self._loop.time()
        self._timer = self._loop.call_later(every_s, self._check)
        self._report: asyncio.Task[None] | None = None

    async def pass_on(self, event: InteractiveEvent) -> None:
        self._silent_since = math.inf
        if self._report is not None:  # its client gets one event after another
            await self._report
        if isinstance(event, InferenceView):
            self._newest = event
        else:
            self._timer.cancel()
        await self._on_event(event)
        self._silent_since = self._loop.time()

    async def end(self) -> None:
        self._timer.cancel()
        if self._report is not None:
            self._report.cancel()
            await asyncio.gather(self._report, return_exceptions=True)

    def _check(self) -> None:
        now = self._loop.time()
        due = self._silent_since + self._every_s
        if due <= now:
            due = now + self._every_s
            if self._report is None:
                self._report = self._loop.create_task(self._report_silence())
        self._timer = self._loop.call_at(min(due, now + self._every_s), self._check)

    async def _report_silence(self) -> None:
        await self._on_event(_unanswered(self._request, self._newest))
        self._report = None


class Exchange:
    """One attempt at one router; `reply` is its result after `run`."""

    def __init__(self, endpoint: RouterEndpoint, request: EncodedRequest, on_event: OnEvent) -> None:
        self._endpoint = endpoint
        self._request = request
        self._on_event = on_event
        self.begun = False
        """A part of the response has arrived."""
        self.reply: RouterReply = NoReply("the event stream ended early", sent=False)

    async def run(self, transport: RouterTransport, headers: Mapping[str, str], *, timeout_s: float) -> None:
        """Passes on all events but the terminal state."""
        url = f"{self._endpoint.url}/inference"
        self._endpoint.in_flight += 1
        try:
            async with transport.open(url, headers, self._request.body, timeout_s=timeout_s) as response:
                await self._read(response)
        except RouterExchangeError as error:
            self.reply = NoReply(str(error), sent=False)
        finally:
            self._endpoint.in_flight -= 1

    async def _read(self, response: aiohttp.ClientResponse) -> None:
        if response.status != 200:
            answer = HttpAnswer(response.status, response.headers, await response.read())
            self.reply = parse_reply(answer_to_all(answer), self._request.head)
            return
        decoder = EventDecoder()
        async for piece in response.content.iter_any():
            for event in decoder.feed(piece):
                if isinstance(event, bytes):
                    self.begun = True
                elif event.state.terminal:  # read on to the end, so that the connection can be used again
                    self.reply = _final_reply(event)
                    continue
                await self._on_event(event)


class EventDecoder:
    """From the bytes of an event stream to its events; comments are dropped."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> Iterator[InteractiveEvent]:
        buffer = self._buffer
        searched = max(0, len(buffer) - 1)
        buffer += piece
        while (end := buffer.find(b"\n\n", searched)) >= 0:
            frame = bytes(buffer[:end])
            del buffer[: end + 2]
            searched = 0
            if frame.startswith(_DATA):
                yield frame[len(_DATA) :].replace(b"\ndata: ", b"\n")
            elif not frame.startswith(b":"):
                yield _view(frame)


def _view(frame: bytes) -> InferenceView:
    try:
        return InferenceView.model_validate_json(frame.partition(b"\ndata: ")[2])
    except ValidationError as error:
        raise RouterExchangeError(f"an event is not an inference: {error}", sent=True) from error


def _unanswered(request: InferenceRequest, newest: InferenceView | None) -> InferenceView:
    """The state of a request that waits for a router."""
    view = newest or InferenceView(
        request_id=request.request_id,
        state=InferenceState.QUEUED,
        model=request.model,
        requested_region=request.region or "",
        fence=request.fence,
    )
    unknown = {"position": None, "eta": None, "waiting_for": NO_ROUTER}
    return view.model_copy(update={"state": InferenceState.QUEUED, **unknown})


def _final_reply(view: InferenceView) -> RouterReply:
    """A router that stops returns what has not run."""
    if view.failure is not None and view.failure.code == ROUTER_STOPPING and not view.tries:
        return BusyReply(RESTART_S, "the router is stopping")
    return view
