"""Reads the body of a successful answer: documents into memory, bytes into the file store."""

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import orjson
from aiohttp.http_exceptions import HttpProcessingError

from beacon_router.backends.client import read_all
from beacon_router.backends.document_stream import EVENT_STREAM, STREAM_TYPES, DocumentStream
from beacon_router.backends.errors import bad_payload
from beacon_router.backends.json_reader import JsonReader
from beacon_router.backends.output_files import OutputFiles
from beacon_router.backends.stream_usage import StreamUsage
from beacon_router.backends.types import Sink, WireResponse

PART_BYTES = 65_536
MAX_PARTS = 1_000
_MEDIA = ("image/", "audio/", "video/")
_JSON_TYPE = "application/json"
_END_OF_STREAM = b"[DONE]"
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")


class SinkReader:
    """Passes a streamed answer to its reader; of it, only the token counts are kept."""

    def __init__(self, sink: Sink, usage: StreamUsage) -> None:
        self._sink = sink
        self._usage = usage

    async def read(self, head: WireResponse, content: aiohttp.StreamReader) -> WireResponse:
        kind, empty = media_type(head), True
        if kind not in ("", EVENT_STREAM):
            raise bad_payload(f"the backend answered a request for a stream with {kind}")
        async for piece in content.iter_any():
            empty = False
            if passed_on := self._usage.feed(piece):
                await self._sink.write(passed_on)
        if empty:
            raise bad_payload("the stream of the backend is empty")
        if rest := self._usage.rest():
            await self._sink.write(rest)
        return head


class AnswerReader:
    """For one answer."""

    def __init__(
        self,
        files: OutputFiles,
        max_bytes: int,
        *,
        unchanged: bool,
        report: Callable[[Any], None] | None = None,
    ) -> None:
        """`max_bytes`: of all that is kept in memory. `unchanged`: no files in place of long texts. `report`
        gets each document of an answer of several."""
        self._files = files
        self._max_bytes = max_bytes
        self._unchanged = unchanged
        self._report = report

    async def read(self, head: WireResponse, content: aiohttp.StreamReader) -> WireResponse:
        kind = media_type(head)
        if kind.startswith("multipart/"):
            document = await self._parts(head, content)
            return head._replace(headers={"content-type": _JSON_TYPE}, body=orjson.dumps(document))
        pieces = content.iter_any()
        if kind in STREAM_TYPES and self._report is not None:
            body = await self._last_document(DocumentStream(pieces, kind), self._report)
            return head._replace(headers={"content-type": _JSON_TYPE}, body=body)
        if is_json(kind) and not self._unchanged:
            body = await JsonReader(pieces, self._files.save, self._max_bytes).read()
            return head._replace(body=body)
        if is_json(kind) or kind.startswith("text/"):
            return head._replace(body=await read_all(pieces, self._max_bytes))
        first = await anext(pieces, b"")
        if not first:
            return head
        file = await self._files.save(_with_first(first, pieces))
        if kind.startswith(_MEDIA) and not kind.endswith("+xml") and file["content_type"].startswith("text/"):
            raise bad_payload(f"the response is declared as {kind}, but it is a text, such as an error page")
        return head._replace(file=file)

    async def _last_document(self, documents: DocumentStream, report: Callable[[Any], None]) -> bytes:
        """Of those that report the progress, and the answer, which is the last one."""
        last = b""
        while (document := await documents.next()) is not None:
            kept = await JsonReader(document, self._files.save, self._max_bytes).read()
            if kept.strip() == _END_OF_STREAM:
                continue
            if last:
                await self._files.keep_only(kept)
            last = kept
            try:
                report(orjson.loads(last))
            except orjson.JSONDecodeError as error:
                raise bad_payload(f"a document of the streamed response is not JSON: {error}") from error
        if not last:
            raise bad_payload("the streamed response has no JSON document")
        return last

    async def _parts(self, head: WireResponse, content: aiohttp.StreamReader) -> Any:
        """An object of the parts by name; a list if a part has no name."""
        found: list[tuple[str | None, Any]] = []
        try:
            reader = aiohttp.MultipartReader(head.headers, content)
            while (part := await reader.next()) is not None:
                if not isinstance(part, aiohttp.BodyPartReader) or "content-encoding" in part.headers:
                    raise bad_payload("a part of the multipart response is itself multipart or compressed")
                found.append((part.name, await self._part(part)))
                if len(found) > MAX_PARTS:
                    raise bad_payload(f"the response has more than {MAX_PARTS} parts")
        except (ValueError, RuntimeError, AssertionError, HttpProcessingError) as error:
            raise bad_payload(f"the multipart response cannot be read: {str(error)[:200]}") from error
        return _document(found)

    async def _part(self, part: aiohttp.BodyPartReader) -> Any:
        head = WireResponse(200, part.headers)
        kind = media_type(head)
        chunks = _chunks(part)
        if is_json(kind) and (kind or part.filename is None):
            body = await JsonReader(chunks, self._files.save, self._max_bytes).read()
            self._max_bytes -= len(body)
            return _value(body, strict=bool(kind))
        if kind.startswith("text/") and part.filename is None:
            body = await read_all(chunks, self._max_bytes)
            self._max_bytes -= len(body)
            return body.decode("utf-8", "replace")
        return await self._files.save(chunks, name=part.filename)


def media_type(response: WireResponse) -> str:
    """Without parameters; an unusable one is that of unknown bytes, none at all is empty."""
    given = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return given if not given or _MEDIA_TYPE.fullmatch(given) else "application/octet-stream"


def is_json(kind: str) -> bool:
    """An answer without a type counts as JSON."""
    return not kind or kind == _JSON_TYPE or kind.endswith("+json")


async def _with_first(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in pieces:
        yield piece


async def _chunks(part: aiohttp.BodyPartReader) -> AsyncIterator[bytes]:
    while not part.at_eof():
        if chunk := await part.read_chunk(PART_BYTES):
            yield bytes(part.decode(chunk))


def _value(body: bytes, *, strict: bool) -> Any:
    """A field of a form without a type is JSON or plain text."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if strict:
            raise bad_payload(f"a part of the multipart response is not JSON: {error}") from error
        return body.decode("utf-8", "replace")


def _document(found: list[tuple[str | None, Any]]) -> Any:
    if any(name is None for name, _ in found):
        return [value for _, value in found]
    by_name: dict[str, list[Any]] = {}
    for name, value in found:
        by_name.setdefault(name or "", []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in by_name.items()}
