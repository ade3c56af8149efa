"""One backend that answers a request with its result: a dialect over the HTTP client."""

import asyncio
import math
from functools import partial
from typing import Any, Protocol

import orjson
import structlog

from beacon_contracts.files import InputFile
from beacon_router.backends.answer_reader import AnswerReader, SinkReader
from beacon_router.backends.errors import bad_payload, run_timeout
from beacon_router.backends.input_files import FileForms
from beacon_router.backends.output_files import OutputFiles
from beacon_router.backends.progress import ProgressExpressions
from beacon_router.backends.stream_usage import StreamUsage, is_usage_wanted, token_usage
from beacon_router.backends.types import (
    BackendCall,
    BackendError,
    BackendResult,
    RunObserver,
    Sink,
    WireRequest,
    WireResponse,
)
from beacon_router.backends.wire import BackendWire

log = structlog.get_logger(__name__)

_NANOSECONDS = 9
"""Digits after the point; smaller values do not fit the column that stores seconds."""


class DialectAdapter(Protocol):
    """Pure: from a call to an HTTP request, from a response to its result. Both raise BackendError.

    One that streams also keeps the complete response.
    """

    streams: bool

    @property
    def progress(self) -> ProgressExpressions | None:
        """Where it is in the documents of an answer of several."""
        ...

    def request(
        self, call: BackendCall, *, attempt: int, stream: bool, count_tokens: bool = False
    ) -> WireRequest:
        """`count_tokens`: the stream is to end with the token counts."""
        ...

    def result(self, response: WireResponse) -> BackendResult:
        """The result of a response with a status of 2xx."""
        ...

    def file_value(self, key: str | None, file: InputFile, forms: FileForms) -> Any:
        """What takes the place of a reference below a key."""
        ...


class HttpBackend:
    remote = None

    def __init__(
        self, dialect: DialectAdapter, wire: BackendWire, *, run_timeout_s: float | None = None
    ) -> None:
        self._dialect = dialect
        self._wire = wire
        self._run_timeout_s = run_timeout_s
        self._counts_streams = True
        """Until the backend refuses to."""

    async def run(
        self,
        call: BackendCall,
        *,
        attempt: int = 1,
        sink: Sink | None = None,
        observer: RunObserver | None = None,
    ) -> BackendResult:
        outputs = self._wire.outputs()
        try:
            async with asyncio.timeout(self._run_timeout_s):
                return await self._run(
                    call, attempt, sink if self._dialect.streams else None, observer, outputs
                )
        except TimeoutError as error:
            await outputs.discard()
            raise run_timeout(self._run_timeout_s or 0.0) from error
        except BackendError:
            await outputs.discard()
            raise

    async def _run(
        self,
        call: BackendCall,
        attempt: int,
        sink: Sink | None,
        observer: RunObserver | None,
        outputs: OutputFiles,
    ) -> BackendResult:
        inputs = self._wire.inputs(self._dialect.file_value) if call.files else None
        placed = call if inputs is None else await inputs.place(call)
        count = sink is not None and self._counts_streams and not is_usage_wanted(call.params)
        request = self._dialect.request(placed, attempt=attempt, stream=sink is not None, count_tokens=count)
        if inputs is not None:
            request = inputs.attach(request)
        if sink is not None:
            usage = StreamUsage(drop=count)
            try:
                await self._wire.send(request, SinkReader(sink, usage), inputs)
            except BackendError as error:
                if not count or not _refuses_to_count(error):
                    raise
                log.warning("stream_usage_refused", reason=error.message)
                self._counts_streams = False
                return await self._run(call, attempt, sink, observer, outputs)
            return BackendResult(b"null", usage=usage.counts)
        reader = AnswerReader(
            outputs,
            self._wire.max_response_bytes,
            unchanged=self._dialect.streams,
            report=None if self._dialect.progress is None else partial(self._report, observer),
        )
        response = await self._wire.send(request, reader, inputs)
        return await self._wire.with_files(self._result(response), outputs)

    def _report(self, observer: RunObserver | None, document: Any) -> None:
        if observer is None or self._dialect.progress is None:
            return
        progress = self._dialect.progress.of(document)
        if progress is not None:
            observer.progressed(progress)

    def _result(self, response: WireResponse) -> BackendResult:
        if response.file is not None:
            return BackendResult(orjson.dumps(response.file))
        try:
            return self._dialect.result(response)
        except BackendError as error:
            if response.status == 202:
                raise bad_payload(
                    "the backend answered 202 (accepted) without a result; this dialect does not poll for it"
                ) from error
            raise


def _refuses_to_count(error: BackendError) -> bool:
    """The backend does not know the option for it; nothing was streamed."""
    return error.status in (400, 422) and "stream_options" in error.message


def json_object(response: WireResponse) -> dict[str, object]:
    """The JSON object of a successful response."""
    try:
        document = orjson.loads(response.body)
    except orjson.JSONDecodeError as error:
        kind, size = response.headers.get("content-type", "no type"), len(response.body)
        raise bad_payload(f"the response is not JSON ({kind}, {size} bytes): {error}") from error
    if not isinstance(document, dict):
        raise bad_payload("the response is JSON, but not an object")
    return document


def timed_result(output: object, metrics: object) -> BackendResult:
    """With the durations that the backend reports, where they are plausible."""
    reported: dict[str, object] = metrics if isinstance(metrics, dict) else {}
    load_s, run_s = _seconds(reported.get("load_s")), _seconds(reported.get("run_s"))
    return BackendResult(json_text(output), load_s, run_s, token_usage(reported.get("usage")))


def json_text(value: object) -> bytes:
    """Of a part of a response, which may have more levels than can be encoded."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise bad_payload(f"a part of the response cannot be encoded: {error}") from error


def _seconds(value: object) -> float | None:
    """A number of seconds that can be averaged and stored, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(float(value), _NANOSECONDS) if math.isfinite(value) and value >= 0 else None
