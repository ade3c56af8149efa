"""One backend: a dialect over the HTTP client, with files in place of large inputs and outputs."""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import orjson
from yarl import URL

from beacon_config.topology import FileInput
from beacon_contracts.files import InputFile
from beacon_files import FileStore
from beacon_lifecycle import Clock
from beacon_router.backends.answer_reader import AnswerReader, SinkReader
from beacon_router.backends.client import DIRECT, BackendClient, BackendTransport
from beacon_router.backends.errors import (
    ACCESS_FAULTS,
    bad_payload,
    error_object,
    request_forbidden,
    run_timeout,
    status_error,
)
from beacon_router.backends.input_files import FileForms, InputFiles
from beacon_router.backends.json_reader import MAX_TEXT_BYTES, JsonReader
from beacon_router.backends.output_files import OutputFiles
from beacon_router.backends.output_urls import OutputUrls
from beacon_router.backends.types import (
    BackendCall,
    BackendError,
    BackendResult,
    Sink,
    WireRequest,
    WireResponse,
)

MAX_ERROR_TEXT_BYTES = 2_000
ACCESS_CHECK_TIMEOUT_S = 5.0
MAX_TOKENS = 10**12
PIECE_BYTES = 131_072
MAX_OUTPUT_BYTES = 262_144
"""A larger output becomes a file as a whole."""
_PUBLIC_HEADERS = frozenset({"content-type", "x-request-id"})
MIN_SECRET_LENGTH = 6
_NANOSECONDS = 9
"""Digits after the point; smaller values do not fit the column that stores seconds."""


class DialectAdapter(Protocol):
    """Pure: from a call to an HTTP request, from a response to its result. Both raise BackendError.

    One that streams also keeps the complete response.
    """

    streams: bool

    def request(self, call: BackendCall, *, attempt: int, stream: bool) -> WireRequest: ...

    def result(self, response: WireResponse) -> BackendResult:
        """The result of a response with a status of 2xx."""
        ...

    def file_value(self, key: str | None, file: InputFile, forms: FileForms) -> Any:
        """What takes the place of a reference below a key."""
        ...


@dataclass(frozen=True, slots=True)
class FileRules:
    """`urls`: fetches files that outputs name; None keeps the URLs."""

    store: FileStore
    max_bytes: int
    inputs: FileInput = FileInput.BASE64
    urls: OutputUrls | None = None


class AccessCheck(NamedTuple):
    """A GET that tells whether the backend accepts the router's credentials; it has nothing of a request."""

    url: URL
    headers: Mapping[str, str]


class HttpBackend:
    def __init__(
        self,
        dialect: DialectAdapter,
        client: BackendClient,
        clock: Clock,
        files: FileRules,
        *,
        access_check: AccessCheck,
        transport: BackendTransport = DIRECT,
        run_timeout_s: float | None = None,
        max_response_bytes: int,
    ) -> None:
        self._dialect = dialect
        self._client = client
        self._clock = clock
        self._access_check = access_check
        self._files = files
        self._transport = transport
        self._run_timeout_s = run_timeout_s
        self._max_response_bytes = max_response_bytes

    async def run(self, call: BackendCall, *, attempt: int = 1, sink: Sink | None = None) -> BackendResult:
        outputs = OutputFiles(self._files.store, self._files.max_bytes)
        try:
            async with asyncio.timeout(self._run_timeout_s):
                return await self._run(call, attempt, sink if self._dialect.streams else None, outputs)
        except TimeoutError as error:
            await outputs.discard()
            raise run_timeout(self._run_timeout_s or 0.0) from error
        except BackendError:
            await outputs.discard()
            raise

    async def _run(
        self, call: BackendCall, attempt: int, sink: Sink | None, outputs: OutputFiles
    ) -> BackendResult:
        inputs = InputFiles(self._files.store, self._files.inputs, self._dialect.file_value)
        if call.files:
            call = await inputs.place(call)
        request = inputs.attach(self._dialect.request(call, attempt=attempt, stream=sink is not None))
        whole = self._max_response_bytes
        try:
            response = await self._client.send(
                request,
                self._transport,
                max_bytes=whole,
                reader=SinkReader(sink)
                if sink is not None
                else AnswerReader(outputs, whole, unchanged=self._dialect.streams),
            )
        except BackendError as error:
            raise inputs.error or error from error
        if response.status == 403:
            raise await self._forbidden()
        if not 200 <= response.status < 300:
            raise inputs.error or self._status_error(request, response)
        if sink is not None:
            return BackendResult(b"null")
        return await self._with_files(self._result(response), outputs)

    async def _with_files(self, result: BackendResult, outputs: OutputFiles) -> BackendResult:
        """The result with references in place of long base64 texts, of URLs and of a large output."""
        output = result.output
        if len(output) > MAX_TEXT_BYTES:
            output = await JsonReader(_pieces(output), outputs.save, len(output)).read()
        if self._files.urls is not None:
            output = await self._files.urls.fetched(output, outputs)
        if len(output) > MAX_OUTPUT_BYTES:
            document = orjson.loads(output)
            whole = document.encode() if isinstance(document, str) else output
            output = orjson.dumps(await outputs.save(_pieces(whole)))
        return result._replace(output=output, files=await outputs.named_in(output))

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

    async def _forbidden(self) -> BackendError:
        """A 403 may be about the content of the request, so it alone never opens the breaker."""
        try:
            async with asyncio.timeout(ACCESS_CHECK_TIMEOUT_S):
                url, headers = self._access_check
                status = await self._client.status_of(url, self._transport, headers)
        except TimeoutError:
            return request_forbidden()
        except BackendError as error:
            return error if error.fault is not None else request_forbidden()
        if status not in ACCESS_FAULTS:
            return request_forbidden()
        return status_error(status, "", None, self._clock.wall())

    def _status_error(self, request: WireRequest, response: WireResponse) -> BackendError:
        """Users see the text: it never has the address or the credentials of the backend."""
        body = response.body
        for secret in _secrets(request):
            body = body.replace(secret, b"[redacted]")
        text = body[:MAX_ERROR_TEXT_BYTES].decode("utf-8", "replace")
        retry_after = response.headers.get("retry-after")
        now = self._clock.wall()
        return status_error(response.status, text, retry_after, now, error=error_object(body))


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]


def _secrets(request: WireRequest) -> list[bytes]:
    """The values of all configured headers, and the address."""
    texts = [request.url.authority, request.url.host or ""]
    for name, value in request.headers.items():
        if name.lower() not in _PUBLIC_HEADERS:
            texts += [value, value.partition(" ")[2]]
    return [text.encode() for text in texts if len(text) >= MIN_SECRET_LENGTH]


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
    try:
        text = orjson.dumps(output)
    except orjson.JSONEncodeError as error:  # nested too deep
        raise bad_payload(f"the output cannot be encoded: {error}") from error
    load_s, run_s = _seconds(reported.get("load_s")), _seconds(reported.get("run_s"))
    return BackendResult(text, load_s, run_s, token_usage(reported.get("usage")))


def token_usage(value: object) -> dict[str, int] | None:
    """The counts of an OpenAI-compatible `usage` object."""
    if not isinstance(value, dict):
        return None
    counts = {name: value.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    found = {name: count for name, count in counts.items() if type(count) is int and 0 <= count <= MAX_TOKENS}
    return found or None


def _seconds(value: object) -> float | None:
    """A number of seconds that can be averaged and stored, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(float(value), _NANOSECONDS) if math.isfinite(value) and value >= 0 else None
