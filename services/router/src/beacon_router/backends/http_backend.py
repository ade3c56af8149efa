"""One backend: a dialect over the HTTP client."""

import math
from typing import Protocol

import orjson

from beacon_lifecycle import Clock
from beacon_router.backends.client import BackendClient
from beacon_router.backends.errors import bad_payload, error_object, status_error
from beacon_router.backends.types import (
    BackendCall,
    BackendError,
    BackendResult,
    Sink,
    WireRequest,
    WireResponse,
)

MAX_ERROR_TEXT_BYTES = 2_000
MAX_TOKENS = 10**12
_NANOSECONDS = 9
"""Digits after the point; smaller values do not fit the column that stores seconds."""


class DialectAdapter(Protocol):
    """Pure: from a call to an HTTP request, from a response to its result. Both raise BackendError."""

    streams: bool

    def request(self, call: BackendCall, *, attempt: int, stream: bool) -> WireRequest: ...

    def result(self, response: WireResponse) -> BackendResult:
        """The result of a response with status 200."""
        ...


class HttpBackend:
    def __init__(
        self, dialect: DialectAdapter, client: BackendClient, clock: Clock, *, max_response_bytes: int
    ) -> None:
        self._dialect = dialect
        self._client = client
        self._clock = clock
        self._max_response_bytes = max_response_bytes

    async def run(self, call: BackendCall, *, attempt: int = 1, sink: Sink | None = None) -> BackendResult:
        sink = sink if self._dialect.streams else None
        request = self._dialect.request(call, attempt=attempt, stream=sink is not None)
        response = await self._client.send(request, max_bytes=self._max_response_bytes, sink=sink)
        if response.status != 200:
            raise self._status_error(request, response)
        return BackendResult(b"null") if sink is not None else self._dialect.result(response)

    def _status_error(self, request: WireRequest, response: WireResponse) -> BackendError:
        """Users see the text: it never has the address or the credentials of the backend."""
        body = response.body
        for secret in _secrets(request):
            body = body.replace(secret, b"[redacted]")
        text = body[:MAX_ERROR_TEXT_BYTES].decode("utf-8", "replace")
        retry_after = response.headers.get("retry-after")
        now = self._clock.wall()
        return status_error(response.status, text, retry_after, now, error=error_object(body))


def _secrets(request: WireRequest) -> list[bytes]:
    authorization = request.headers.get("authorization", "")
    texts = (authorization, authorization.partition(" ")[2], request.url.authority, request.url.host or "")
    return [text.encode() for text in texts if text]


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
