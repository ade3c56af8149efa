"""Many inferences in one exchange: one line per entry as soon as it has an answer."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Annotated, Any, NamedTuple, Self

import orjson
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from beacon_contracts.inference import MAX_BATCH_ENTRIES, RemoteRun, RunProgress
from beacon_contracts.model import RequestModel
from beacon_http.json_body import json_object
from beacon_http.problems import HttpProblemError
from beacon_http.replies import Reply, problem_reply
from beacon_router.http.auth import ServiceAuth
from beacon_router.http.bodies import BodyReader
from beacon_router.http.inference_parser import InferenceParser
from beacon_router.http.prefer import UNTIL_DONE, preference_of
from beacon_router.http.presenter import InferencePresenter
from beacon_router.http.problems import log_unexpected, problem_of
from beacon_router.scheduling import RequestId
from beacon_router.service.dispatch_service import DispatchService
from beacon_router.service.errors import DispatchError
from beacon_router.service.inference import Inference
from beacon_router.service.timers import Timer

NDJSON = "application/x-ndjson"
BATCH_PATH = "/inference/batch"
# Lines are sent in pieces of about this size, so that a client that reads slowly holds little memory.
PIECE_BYTES = 65_536
# Between so many new requests other work of the process gets its turn.
ENTRIES_PER_TURN = 50
REPORT_DELAY_S = 0.05
PROGRESS_EVERY_S = 1.0


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
        presenter: InferencePresenter,
        auth: ServiceAuth,
        bodies: BodyReader,
    ) -> None:
        self._dispatch = dispatch
        self._parser = parser
        self._presenter = presenter
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
            self._dispatch.accept(self._parser.parse(document))
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
        """A line for each inference that ends in time, then 202 for each that still waits.

        Before that, a line with status 102 when a run has started or its inference waits again, at once when
        its provider has named it, and at most once a second when it has progressed.
        """
        refused = [_line(one.request_id, one.refused) for one in entries if one.refused is not None]
        for piece in _pieces(refused):
            yield piece
        accepted = [one.request_id for one in entries if one.refused is None and one.request_id is not None]
        with BatchObserver(self._dispatch, accepted, wait_s) as observer:
            while changes := await observer.next():
                lines = map(self._progress_line, changes.moved), map(self._line_of, changes.ended)
                for piece in _pieces(chain(*lines)):
                    yield piece
            for piece in _pieces(map(self._line_of, observer.waiting)):
                yield piece

    def _line_of(self, request_id: RequestId) -> bytes:
        """The inference is looked up now: while a client reads slowly, only the store keeps its result."""
        try:
            return _line(request_id, self._presenter.answer(self._dispatch.get(request_id)))
        except Exception as error:  # noqa: BLE001 - it is the answer of this entry only
            return _line(request_id, _refused(error))

    def _progress_line(self, inference: Inference) -> bytes:
        return _line(inference.id, Reply(102, self._presenter.render(inference)))


class Changes(NamedTuple):
    """`moved`: inferences that have got onto a GPU or wait again, were named or have progressed."""

    ended: list[RequestId]
    moved: list[Inference]


class BatchObserver:
    """Observes the inferences of a batch for `wait_s` seconds, or without a limit.

    A start is reported after `REPORT_DELAY_S`, so that short runs have one line; the id of a run at a
    provider at once, because the run is lost without it. An id that is given twice is listed twice.
    """

    def __init__(self, dispatch: DispatchService, request_ids: Iterable[str], wait_s: float | None) -> None:
        self._timers = dispatch.timers
        self._clock = dispatch.clock
        self._report_at = 0.0
        self._ended: list[RequestId] = []
        self._waiting: dict[RequestId, tuple[Inference, int]] = {}
        self._reported: dict[RequestId, _Reported] = {}
        self._moved: dict[RequestId, Inference] = {}
        self._report: Timer | None = None
        self._report_due = False
        self._changed = asyncio.Event()
        self._time_is_up = wait_s == 0
        self._timer = self._timers.after(wait_s, self._end_waiting) if wait_s else None
        for request_id, times in Counter(map(RequestId, request_ids)).items():
            inference = dispatch.store.get(request_id)
            if inference is None or inference.done:
                self._ended += [request_id] * times
                continue
            self._waiting[request_id] = inference, times
            inference.observers.append(self._observe)
            if _reportable(inference) != _NOTHING:
                self._observe(inference)

    @property
    def waiting(self) -> Iterator[RequestId]:
        for request_id, (_, times) in self._waiting.items():
            yield from repeat(request_id, times)

    async def next(self) -> Changes | None:
        """The changes since the last call; None when nothing waits or the time is up."""
        while not self._ended and not self._report_due and self._waiting and not self._time_is_up:
            await self._changed.wait()
            self._changed.clear()
        ended, self._ended = self._ended, []
        moved = self._take_moved() if self._report_due else []
        return Changes(ended, moved) if ended or (self._waiting and not self._time_is_up) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for waiting in self._waiting.values():
            waiting[0].observers.remove(self._observe)
        for timer in (self._timer, self._report):
            if timer is not None:
                timer.cancel()

    def _observe(self, inference: Inference) -> None:
        if inference.done:
            inference.observers.remove(self._observe)
            self._moved.pop(inference.id, None)
            self._reported.pop(inference.id, None)
            self._ended += [inference.id] * self._waiting.pop(inference.id)[1]
            self._changed.set()
            return
        self._moved[inference.id] = inference
        last, now = self._reported.get(inference.id, _NOTHING), _reportable(inference)
        if now.remote is not None and now.remote != last.remote:
            self._report_moved()
        elif now._replace(progress=last.progress) != last:
            self._report_after(REPORT_DELAY_S)
        elif now != last:
            self._report_after(PROGRESS_EVERY_S)

    def _take_moved(self) -> list[Inference]:
        """Those that have changed since they were reported; at first all wait."""
        moved = []
        for one in self._moved.values():
            reportable = _reportable(one)
            if reportable != self._reported.get(one.id, _NOTHING):
                self._reported[one.id] = reportable
                moved.append(one)
        self._moved, self._report_due = {}, False
        return moved

    def _report_after(self, seconds: float) -> None:
        due = self._clock.now() + seconds
        if self._report is not None:
            if self._report_at <= due:
                return
            self._report.cancel()
        self._report, self._report_at = self._timers.at(due, self._report_moved), due

    def _report_moved(self) -> None:
        if self._report is not None:
            self._report.cancel()
        self._report, self._report_due = None, True
        self._changed.set()

    def _end_waiting(self) -> None:
        self._time_is_up = True
        self._changed.set()


class _Reported(NamedTuple):
    """What a line with status 102 is about."""

    on_gpu: bool
    remote: RemoteRun | None
    progress: RunProgress | None


_NOTHING = _Reported(on_gpu=False, remote=None, progress=None)


def _reportable(inference: Inference) -> _Reported:
    return _Reported(inference.on_gpu, inference.remote, inference.progress)


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
