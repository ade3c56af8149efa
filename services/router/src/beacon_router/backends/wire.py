"""The HTTP exchanges of one backend: errors by their status, files in place of large inputs and outputs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import aiohttp
import jmespath
import orjson
import structlog
from jmespath.exceptions import JMESPathError
from yarl import URL

from beacon_config.topology import FileInput
from beacon_files import FileStore
from beacon_lifecycle import Clock
from beacon_router.backends.client import DIRECT, BackendClient, BackendTransport
from beacon_router.backends.errors import (
    ACCESS_FAULTS,
    account_locked,
    error_object,
    request_forbidden,
    status_error,
)
from beacon_router.backends.input_files import FormChoice, InputFiles
from beacon_router.backends.json_reader import MAX_TEXT_BYTES, JsonReader
from beacon_router.backends.output_files import OutputFiles
from beacon_router.backends.output_urls import OutputUrls
from beacon_router.backends.types import (
    BackendError,
    BackendResult,
    ResponseReader,
    WireRequest,
    WireResponse,
)

log = structlog.get_logger(__name__)

MAX_ERROR_TEXT_BYTES = 2_000
ACCESS_CHECK_TIMEOUT_S = 5.0
PIECE_BYTES = 131_072
MAX_OUTPUT_BYTES = 262_144
"""A larger output becomes a file as a whole."""
_PUBLIC_HEADERS = frozenset({"content-type", "x-request-id"})
MIN_SECRET_LENGTH = 6


@dataclass(frozen=True, slots=True)
class FileRules:
    """`urls`: fetches files that outputs name; None keeps the URLs."""

    store: FileStore
    max_bytes: int
    inputs: FileInput = FileInput.BASE64
    urls: OutputUrls | None = None


def _decoded(body: bytes) -> str:
    return body[:MAX_ERROR_TEXT_BYTES].decode("utf-8", "replace")


class AccessCheck(NamedTuple):
    """What a 403 is about: the request, or the backend's account and credentials.

    A GET with nothing of a request tells whether the credentials are accepted.
    """

    url: URL
    headers: Mapping[str, str]
    account_locked: str | None = None
    """Of the answer itself: a JMESPath expression that is true for a locked account."""


class BackendWire:
    def __init__(
        self,
        client: BackendClient,
        clock: Clock,
        files: FileRules,
        *,
        access_check: AccessCheck,
        transport: BackendTransport = DIRECT,
        max_response_bytes: int,
    ) -> None:
        self._client = client
        self._clock = clock
        self._files = files
        self._access_check = access_check
        self._transport = transport
        self.max_response_bytes = max_response_bytes
        """Of each answer, without its files."""

    def wall(self) -> datetime:
        return self._clock.wall()

    def inputs(self, form: FormChoice, mode: FileInput | None = None) -> InputFiles:
        return InputFiles(self._files.store, mode or self._files.inputs, form)

    def outputs(self) -> OutputFiles:
        return OutputFiles(self._files.store, self._files.max_bytes)

    async def send(
        self,
        request: WireRequest,
        reader: ResponseReader | None = None,
        inputs: InputFiles | None = None,
        *,
        error_text: Callable[[bytes], str] = _decoded,
    ) -> WireResponse:
        """The response, read by the reader, if its status is 2xx; any other raises BackendError.

        `error_text`: the cause in the body of an error.
        """
        try:
            response = await self._client.send(
                request, self._transport, max_bytes=self.max_response_bytes, reader=reader
            )
        except BackendError as error:
            raise (inputs and inputs.error) or error from error
        if response.status == 403:
            raise await self._forbidden(response.body)
        if not 200 <= response.status < 300:
            raise (inputs and inputs.error) or self._status_error(request, response, error_text)
        return response

    def websocket(
        self, url: URL, headers: Mapping[str, str], max_bytes: int
    ) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        return self._client.websocket(url, headers, self._transport, max_bytes=max_bytes)

    async def with_files(self, result: BackendResult, outputs: OutputFiles) -> BackendResult:
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
        return result._replace(output=output, files=await outputs.keep_only(output))

    async def _forbidden(self, body: bytes) -> BackendError:
        """A 403 may be about the content of the request, so its status alone never opens the breaker."""
        url, headers, locked = self._access_check
        if locked is not None and _is_true(locked, body):
            return account_locked()
        try:
            async with asyncio.timeout(ACCESS_CHECK_TIMEOUT_S):
                status = await self._client.status_of(url, self._transport, headers)
        except TimeoutError:
            return request_forbidden()
        except BackendError as error:
            return error if error.fault is not None else request_forbidden()
        if status not in ACCESS_FAULTS:
            # Of a server that refuses wrong credentials elsewhere, `health_url` is the wrong one.
            log.warning("forbidden_request", checked=f"{url.origin()}{url.path}", status=status)
            return request_forbidden()
        return status_error(status, "", None, self._clock.wall())

    def _status_error(
        self, request: WireRequest, response: WireResponse, error_text: Callable[[bytes], str]
    ) -> BackendError:
        """Users see the text: it never has the address or the credentials of the backend."""
        body = response.body
        for secret in _secrets(request):
            body = body.replace(secret, b"[redacted]")
        retry_after = response.headers.get("retry-after")
        now = self._clock.wall()
        return status_error(response.status, error_text(body), retry_after, now, error=error_object(body))


def _is_true(expression: str, body: bytes) -> bool:
    with suppress(orjson.JSONDecodeError, JMESPathError):
        return jmespath.search(expression, orjson.loads(body)) is True
    return False


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
