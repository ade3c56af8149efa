"""Reads JSON in bounded memory: long base64 texts and data URLs are streamed into files."""

import re
from binascii import Error as Base64Error
from collections.abc import AsyncIterator
from typing import Any, Protocol

import orjson
from pybase64 import b64decode

from beacon_router.backends.errors import bad_payload

MAX_TEXT_BYTES = 65_536
"""Longer base64 texts become files."""
_WINDOW = MAX_TEXT_BYTES + 300
# A quote that begins a text follows no backslash, and one that ends a text precedes none of these characters.
_LONG_TEXT = re.compile(rb'(?<!\\)"(data:[^",]{0,200};base64,)?([A-Za-z0-9+/=\\]{%d})' % (MAX_TEXT_BYTES + 1))


class Save(Protocol):
    async def __call__(self, chunks: AsyncIterator[bytes]) -> dict[str, Any]: ...


class JsonReader:
    """`read` is called once."""

    def __init__(self, pieces: AsyncIterator[bytes], save: Save, max_bytes: int) -> None:
        """`max_bytes`: of the JSON without the texts that become files."""
        self._pieces = pieces
        self._save = save
        self._max_bytes = max_bytes
        self._buffer = b""

    async def read(self) -> bytes:
        """The JSON text with references in place of long base64 texts."""
        kept = bytearray()
        more = True
        while more:
            more = await self._fill()
            # The first byte was searched before, and a backslash in front of it is gone.
            while found := _LONG_TEXT.search(self._buffer, 1 if kept else 0):
                if found[1] is None and not _looks_encoded(found[2]):
                    kept += self._buffer[: found.end() - 1]
                    self._buffer = self._buffer[found.end() - 1 :]
                    continue
                kept += self._buffer[: found.start()]
                self._buffer = self._buffer[found.start(2) :]
                kept += orjson.dumps(await self._save(self._decoded()))
            cut = max(0, len(self._buffer) - _WINDOW) if more else len(self._buffer)
            kept += self._buffer[:cut]
            self._buffer = self._buffer[cut:]
            if len(kept) > self._max_bytes:
                raise bad_payload(f"the response is longer than {self._max_bytes} bytes without its files")
        return bytes(kept)

    async def _fill(self) -> bool:
        """Append at least one window to the buffer; false at the end."""
        pieces, size = [self._buffer], 0
        async for piece in self._pieces:
            pieces.append(piece)
            size += len(piece)
            if size > _WINDOW:
                break
        self._buffer = b"".join(pieces)
        return size > _WINDOW

    async def _decoded(self) -> AsyncIterator[bytes]:
        """The bytes of the text at the start of the buffer; the buffer continues after its closing quote."""
        undecoded = b""
        while True:
            text, quote, self._buffer = self._buffer.partition(b'"')
            undecoded, text = _quartets(undecoded + text, last=bool(quote))
            if text:
                yield _decode(text)
            if quote:
                return
            self._buffer = await anext(self._pieces, b"")
            if not self._buffer:
                raise bad_payload("the response ends within a base64 text")


def _looks_encoded(text: bytes) -> bool:
    """Bytes in base64 have letters of both cases and digits; a sequence or a number has not."""
    return all(re.search(kind, text) for kind in (rb"[A-Z]", rb"[a-z]", rb"[0-9]"))


def _quartets(text: bytes, *, last: bool) -> tuple[bytes, bytes]:
    """The rest, and what can be decoded now; escaped slashes and line ends as they were meant."""
    split = b""
    if b"\\" in text:
        if text.endswith(b"\\"):
            split, text = b"\\", text[:-1]
        text = text.replace(b"\\/", b"/").replace(b"\\n", b"").replace(b"\\r", b"")
    if last:
        return b"", text + b"=" * (-len(text) % 4) + split
    cut = len(text) - len(text) % 4
    return text[cut:] + split, text[:cut]


def _decode(text: bytes) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error as error:
        raise bad_payload(f"a long text of the response begins as base64, but is not: {error}") from error
