"""Batched exchanges with one router: everything that is due goes in one request, without a timer."""

import asyncio
from collections import deque
from collections.abc import Mapping
from contextvars import Context
from dataclasses import dataclass, field
from http import HTTPStatus

import orjson
import structlog
from pydantic import ValidationError

from beacon_contracts.inference import MAX_BATCH_ENTRIES, BatchAnswer, InferenceView
from beacon_lifecycle import TaskSet
from beacon_runner.ports.router import OnState
from beacon_runner.router_client.replies import NoReply, answer_to_all, view_of
from beacon_runner.router_client.transport import HttpAnswer, RouterExchangeError, RouterTransport

log = structlog.get_logger(__name__)

BATCH_PATH = "/inference/batch"
MAX_BATCH_BYTES = 524_288
MAX_EXCHANGES = 32
PROGRESS = 102  # the status of a line that is no answer yet
# A batch that is refused with one of these is not sent again entry by entry.
_WHOLE_BATCH_REFUSED = (401, 403, 404, 408, 425, 429)


@dataclass(slots=True, eq=False)
class BatchEntry:
    """`body` None: a poll."""

    request_id: str
    body: bytes | None
    answer: "asyncio.Future[BatchAnswer | NoReply]"
    on_state: OnState
    alone: bool = False


class RouterBatches:
    """The open exchanges with one router, at most `MAX_EXCHANGES`.

    An entry is sent in the next turn of the event loop, or when the router has accepted the batch before. At
    the limit the smallest exchanges are closed, and their entries are polled in the next one.
    """

    def __init__(
        self,
        transport: RouterTransport,
        router_url: str,
        headers: Mapping[str, str],
        tasks: TaskSet,
        *,
        timeout_s: float,
        max_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        self._transport = transport
        self._url = router_url + BATCH_PATH
        self._headers = headers
        self._tasks = tasks
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._due: deque[BatchEntry] = deque()
        self._exchanges: set[_Exchange] = set()
        self._sending = False

    async def ask(
        self, request_id: str, body: bytes | None, on_state: OnState = lambda _: None
    ) -> BatchAnswer | NoReply:
        """Send the request, or poll its inference when `body` is None."""
        answer: asyncio.Future[BatchAnswer | NoReply] = asyncio.get_running_loop().create_future()
        self._due.append(BatchEntry(request_id, body, answer, on_state))
        if not self._sending:
            self._sending = True
            self._tasks.spawn("send", self._send_due(), context=Context())
        return await answer

    async def _send_due(self) -> None:
        """One batch after another until nothing is due, each when the router has accepted the one before."""
        try:
            while self._due:
                if len(self._exchanges) >= MAX_EXCHANGES:
                    self._close_smallest()
                if entries := self._next_batch():
                    exchange = _Exchange(entries)
                    self._exchanges.add(exchange)
                    exchange.task = self._tasks.spawn("exchange", self._run(exchange))
                    await exchange.sent.wait()
        finally:
            self._sending = False

    def _next_batch(self) -> dict[str, BatchEntry]:
        """Up to the limits; an id that is in the batch already waits for the next one."""
        batch: dict[str, BatchEntry] = {}
        size, later = 0, []
        while self._due and len(batch) < MAX_BATCH_ENTRIES:
            entry = self._due.popleft()
            if entry.answer.done():  # cancelled
                continue
            size += len(entry.body or entry.request_id) + 3
            if batch and (size > self._max_bytes or entry.alone):
                self._due.appendleft(entry)
                break
            if entry.request_id in batch:
                later.append(entry)
                continue
            batch[entry.request_id] = entry
            if entry.alone:
                break
        self._due.extendleft(reversed(later))
        return batch

    def _close_smallest(self) -> None:
        """Their entries are due again, as polls: the router holds them."""
        accepted = [one for one in self._exchanges if one.sent.is_set()]
        accepted.sort(key=lambda one: len(one.waiting))
        for exchange in accepted[: MAX_EXCHANGES // 2]:
            for entry in exchange.take_waiting():
                entry.body = None
                self._due.append(entry)
            self._exchanges.discard(exchange)
            exchange.task.cancel()

    async def _run(self, exchange: "_Exchange") -> None:
        answer_to_rest = NoReply("the client is closing", sent=True)
        try:
            async with self._transport.open(
                self._url, self._headers, exchange.body(), timeout_s=self._timeout_s
            ) as response:
                if response.status != HTTPStatus.OK:
                    body = await response.read()
                    self._refused(exchange, HttpAnswer(response.status, response.headers, body))
                    return
                # The router has read the whole batch: what it does not refuse it holds from now on.
                for entry in exchange.waiting.values():
                    if entry.body is not None:
                        entry.on_state(None)
                exchange.sent.set()
                async for piece in response.content.iter_any():
                    exchange.add(piece)
            answer_to_rest = NoReply("the response has no answer to this request", sent=True)
        except RouterExchangeError as error:
            answer_to_rest = NoReply(str(error), error.sent)
        except Exception as error:
            log.exception("router_exchange_failed", url=self._url)
            answer_to_rest = NoReply(repr(error), sent=True)
        finally:
            if exchange.waiting:
                exchange.end(answer_to_rest)
            self._exchanges.discard(exchange)
            exchange.sent.set()

    def _refused(self, exchange: "_Exchange", refusal: HttpAnswer) -> None:
        """Of several entries one may be the cause: each is sent again alone."""
        may_be_one = 400 <= refusal.status < 500 and refusal.status not in _WHOLE_BATCH_REFUSED
        if may_be_one and len(exchange.waiting) > 1:
            for entry in exchange.take_waiting():
                entry.alone = True
                self._due.append(entry)
        else:
            exchange.end(answer_to_all(refusal))


@dataclass(eq=False)
class _Exchange:
    """One request and the lines of its response. `sent`: the router has accepted it, or it has failed."""

    waiting: dict[str, BatchEntry]
    sent: asyncio.Event = field(default_factory=asyncio.Event)
    _line: list[bytes] = field(default_factory=list)
    task: asyncio.Task[None] = field(init=False)

    def body(self) -> bytes:
        requests = [entry.body for entry in self.waiting.values() if entry.body is not None]
        polled = [request_id for request_id, entry in self.waiting.items() if entry.body is None]
        return b'{"requests":[' + b",".join(requests) + b'],"poll":' + orjson.dumps(polled) + b"}"

    def add(self, piece: bytes) -> None:
        """A part of the response. Malformed lines and lines of unknown entries are dropped."""
        first, *others = piece.split(b"\n")
        self._line.append(first)
        if others:
            *complete, rest = b"".join(self._line), *others
            self._line = [rest]
            for line in complete:
                self._answer(line)

    def take_waiting(self) -> list[BatchEntry]:
        entries, self.waiting = self.waiting, {}
        return [entry for entry in entries.values() if not entry.answer.done()]

    def end(self, answer: BatchAnswer | NoReply) -> None:
        """The answer to all that have none yet."""
        for entry in self.take_waiting():
            entry.answer.set_result(answer)

    def _answer(self, line: bytes) -> None:
        try:
            answer = BatchAnswer.model_validate_json(line)
        except ValidationError as error:
            log.warning("router_line_invalid", error=error.errors(include_url=False)[0]["msg"])
            return
        entry = self.waiting.get(answer.request_id) if answer.request_id is not None else None
        if entry is None:
            log.warning("router_line_unknown", request=answer.request_id, status=answer.status)
        elif answer.status == PROGRESS:
            view = view_of(answer)
            if isinstance(view, InferenceView) and not view.state.terminal and not entry.answer.done():
                entry.on_state(view)
        else:
            del self.waiting[entry.request_id]
            if not entry.answer.done():
                entry.answer.set_result(answer)
