"""Many inferences in one exchange: one line per entry as soon as it has an answer."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple, Self

import orjson
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from beacon_contracts.inference import MAX_BATCH_ENTRIES
from beacon_contracts.model import RequestModel
from beacon_http.problems import HttpProblemError
from beacon_http.replies import Reply, problem_reply
from beacon_router.http.auth import ServiceAuth
from beacon_router.http.bodies import BodyReader, json_object
from beacon_router.http.inference_answers import InferenceAnswers
from beacon_router.http.inference_parser import InferenceParser
from beacon_router.http.prefer import UNTIL_DONE, preference_of
from beacon_router.http.problems import log_unexpected, problem_of
from beacon_router.scheduling import RequestId
from beacon_router.service.dispatch_service import DispatchService
from beacon_router.service.errors import DispatchError

NDJSON = "application/x-ndjson"
BATCH_PATH = "/inference/batch"
# Lines are sent in pieces of about this size, so that a client that reads slowly holds little memory.
PIECE_BYTES = 65_536
# Between so many new requests other work of the process gets its turn.
ENTRIES_PER_TURN = 50


class BatchBody(RequestModel):
    """Its entries are validated one by one, so that an invalid one fails alone."""

    requests: Annotated[list[Any], Field(max_length=MAX_BATCH_ENTRIES)] = Field(default_factory=list)
    poll: Annotated[list[Any], Field(max_length=MAX_BATCH_ENTRIES)] = Field(default_factory=list)


class Entry(NamedTuple):
    """`refused`: the answer of an entry that was not accepted."""

    request_id: str | None
    refused: Reply | None = None


class BatchHandler:
    def __init__(
        self,
        dispatch: DispatchService,
        parser: InferenceParser,
        answers: InferenceAnswers,
        auth: ServiceAuth,
        bodies: BodyReader,
    ) -> None:
        self._dispatch = dispatch
        self._parser = parser
        self._answers = answers
        self._auth = auth
        self._bodies = bodies

    async def exchange(self, request: Request) -> Response:
        """Queue or join every request; the response begins when all are accepted or refused."""
        self._auth.check(request.scope)
        body = BatchBody.model_validate(json_object(await self._bodies.read(request)))
        preference = preference_of(request.scope, UNTIL_DONE)
        entries: list[Entry] = []
        for first in range(0, len(body.requests), ENTRIES_PER_TURN):
            entries += map(self._accept, body.requests[first : first + ENTRIES_PER_TURN])
            self._dispatch.runs.dispatch_ready()
            await asyncio.sleep(0)
        entries += map(self._look_up, body.poll)
        headers = {} if preference.applied is None else {"preference-applied": preference.applied}
        return StreamingResponse(self._lines(entries, preference.wait_s), media_type=NDJSON, headers=headers)

    def _accept(self, document: Any) -> Entry:
        request_id = document.get("request_id") if isinstance(document, dict) else None
        request_id = request_id if isinstance(request_id, str) else None
        try:
            self._dispatch.accept(self._parser.parse_document(document))
        except Exception as error:  # noqa: BLE001 - it is the answer of this entry only
            return Entry(request_id, _refused(error))
        return Entry(request_id)

    def _look_up(self, request_id: Any) -> Entry:
        if not isinstance(request_id, str):
            return Entry(None, _refused(HttpProblemError(422, "invalid_field", "poll: every id is a string")))
        try:
            self._dispatch.get(RequestId(request_id))
        except DispatchError as error:
            return Entry(request_id, _refused(error))
        return Entry(request_id)

    async def _lines(self, entries: Sequence[Entry], wait_s: float | None) -> AsyncIterator[bytes]:
        """A line for each inference that ends in time, then 202 for each that still waits."""
        refused = [_line(one.request_id, one.refused) for one in entries if one.refused is not None]
        for piece in _pieces(refused):
            yield piece
        accepted = [one.request_id for one in entries if one.refused is None and one.request_id is not None]
        with EndedInferences(self._dispatch, accepted, wait_s) as ended:
            while request_ids := await ended.next():
                for piece in _pieces(map(self._line_of, request_ids)):
                    yield piece
            for piece in _pieces(map(self._line_of, ended.waiting)):
                yield piece

    def _line_of(self, request_id: str) -> bytes:
        """The inference is looked up now: while a client reads slowly, only the store keeps its result."""
        try:
            return _line(request_id, self._answers.of(self._dispatch.get(RequestId(request_id))))
        except Exception as error:  # noqa: BLE001 - it is the answer of this entry only
            return _line(request_id, _refused(error))


class EndedInferences:
    """Waits for many inferences at once, for `wait_s` seconds or without a limit."""

    def __init__(self, dispatch: DispatchService, request_ids: Iterable[str], wait_s: float | None) -> None:
        self._ended: list[str] = []
        self._waiters: dict[asyncio.Future[None], str] = {}
        self._changed = asyncio.Event()
        self._time_is_up = wait_s == 0
        self._timer = dispatch.timers.after(wait_s, self._end_waiting) if wait_s else None
        for request_id in request_ids:
            inference = dispatch.store.get(RequestId(request_id))
            if inference is None or inference.done:
                self._ended.append(request_id)
            else:
                waiter = dispatch.waiter(inference, None)
                self._waiters[waiter] = request_id
                waiter.add_done_callback(self._add)

    @property
    def waiting(self) -> list[str]:
        return list(self._waiters.values())

    async def next(self) -> list[str]:
        """Those that have ended since the last call; none when none is left or the time is up."""
        while not self._ended and self._waiters and not self._time_is_up:
            await self._changed.wait()
            self._changed.clear()
        ended, self._ended = self._ended, []
        return ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _add(self, waiter: "asyncio.Future[None]") -> None:
        request_id = self._waiters.pop(waiter, None)
        if request_id is not None:
            self._ended.append(request_id)
            self._changed.set()

    def _end_waiting(self) -> None:
        self._time_is_up = True
        self._changed.set()


def _refused(error: Exception) -> Reply:
    log_unexpected(error, BATCH_PATH)
    return problem_reply(*problem_of(error))


def _line(request_id: str | None, answer: Reply) -> bytes:
    """The status and the document of the single route; `Retry-After` of a problem as a number."""
    line: dict[str, Any] = {
        "request_id": request_id,
        "status": answer.status,
        "document": orjson.Fragment(answer.body),
    }
    retry_after = dict(answer.headers).get(b"retry-after")
    if retry_after is not None:
        line["retry_after_s"] = float(retry_after)
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def _pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    piece, size = [], 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)
