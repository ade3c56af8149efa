"""The files that an input names: each reference is replaced by a URL or by the bytes.

Bytes are never in memory as a whole. A token takes their place in the input, so that every dialect and
mapping works on a small JSON text; the body is sent with the bytes from the store in place of the tokens.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import aiohttp
import orjson
import structlog
from pybase64 import b64encode

from beacon_config.topology import FileInput
from beacon_contracts.files import InputFile
from beacon_contracts.ids import FILE
from beacon_contracts.inference import StepMeta
from beacon_files import FileStore, FileStoreError, ObjectNotFoundError
from beacon_router.backends.errors import (
    file_store_unavailable,
    files_have_no_url,
    input_file_missing,
    unusable_input,
)
from beacon_router.backends.types import BackendCall, BackendError, WireRequest

log = structlog.get_logger(__name__)

URL_EXPIRES_S = 86_400


class FileForms(NamedTuple):
    """A file as the value of a field: `link` is a URL, a data URL or base64; `data` is base64."""

    link: str
    data_url: str
    data: str


FormChoice = Callable[[str | None, InputFile, FileForms], Any]
"""What a dialect puts in place of a reference below a key."""


def plain_form(key: str | None, file: InputFile, forms: FileForms) -> Any:  # noqa: ARG001
    return forms.link


class PlacedCall(NamedTuple):
    """A call whose input has no references any more."""

    id: str
    model: str
    input: bytes
    params: bytes
    context: bytes
    meta: StepMeta | None
    files: tuple[InputFile, ...] = ()


def reference_of(value: object) -> str | None:
    """The id of the file that an object of the input names."""
    name = value.get("file") if isinstance(value, dict) else None
    return name if isinstance(name, str) and name.startswith(f"{FILE}_") else None


def named_files(value: object) -> Iterator[str]:
    """The ids of all references in a JSON value."""
    name = reference_of(value)
    if name is not None:
        yield name
        return
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from named_files(inner)


class InputFiles:
    """The files of one call."""

    def __init__(self, store: FileStore, mode: FileInput, form: FormChoice) -> None:
        self._store = store
        self._mode = mode
        self._form = form
        self._tokens: dict[bytes, InputFile] = {}
        self.error: BackendError | None = None
        """Why the bytes of a file could not be sent."""

    async def place(self, call: BackendCall) -> BackendCall:
        """The call with a value in place of each reference."""
        files = {file.id: file for file in call.files}
        urls = {}
        if self._mode is FileInput.URL:
            urls = {file.id: await self._url(file) for file in call.files}
        given = orjson.dumps(self._replaced(orjson.loads(call.input), None, files, urls))
        return PlacedCall(call.id, call.model, given, call.params, call.context, call.meta)

    def attach(self, request: WireRequest) -> WireRequest:
        """The request whose body has the bytes in place of the tokens."""
        if any(token.decode() in str(request.url) for token in self._tokens):
            raise unusable_input('a file cannot be sent in the query of a GET: set files = "url"')
        body = request.body
        if not isinstance(body, bytes) or not any(token in body for token in self._tokens):
            return request
        if self._mode is FileInput.MULTIPART:
            document = orjson.loads(body)
            headers = {k: v for k, v in request.headers.items() if k.lower() != "content-type"}
            make = partial(self._form_data, document)
            try:
                make()
            except ValueError as error:
                raise unusable_input(f"the request cannot be sent as a form: {error}") from error
            return request._replace(headers=headers, body=make)
        return request._replace(body=partial(self._spliced, body))

    async def _url(self, file: InputFile) -> str:
        try:
            url = await self._store.signed_url(file.object, expires_s=URL_EXPIRES_S)
        except FileStoreError as error:
            log.warning("input_not_read", reason=str(error))
            raise file_store_unavailable() from error
        if url is None and file.url is None:
            raise files_have_no_url()
        return url or file.url or ""

    def _replaced(
        self, value: Any, key: str | None, files: Mapping[str, InputFile], urls: Mapping[str, str]
    ) -> Any:
        name = reference_of(value)
        if name is not None:
            return self._form(key, files[name], self._forms(files[name], urls.get(name)))
        if isinstance(value, dict):
            return {inner: self._replaced(one, inner, files, urls) for inner, one in value.items()}
        if isinstance(value, list):
            return [self._replaced(one, key, files, urls) for one in value]
        return value

    def _forms(self, file: InputFile, url: str | None) -> FileForms:
        token = f"beacon-file-{uuid4().hex}"
        self._tokens[token.encode()] = file
        data_url = url or f"data:{file.content_type.partition(';')[0]};base64,{token}"
        return FileForms(url or token, data_url, token)

    def _spliced(self, body: bytes) -> aiohttp.Payload:
        """The body with base64 in place of the tokens."""
        own = re.compile(b"|".join(self._tokens))  # a text of the input may have the form of a token
        texts, tokens = own.split(body), own.findall(body)
        files = [self._tokens[token] for token in tokens]
        size = sum(map(len, texts)) + sum((file.bytes + 2) // 3 * 4 for file in files)

        async def pieces() -> AsyncIterator[bytes]:
            yield texts[0]
            for text, file in zip(texts[1:], files, strict=True):
                async for piece in _base64(self._bytes(file)):
                    yield piece
                yield text

        return _Streamed(pieces(), size, "application/json")

    def _form_data(self, document: Mapping[str, Any]) -> aiohttp.Payload:
        """Each file a part named by its path; other fields as text, or as JSON where they are not texts."""
        form = aiohttp.FormData(default_to_multipart=True, quote_fields=False)
        for name, value in document.items():
            values = value if isinstance(value, list) and value else [value]
            if all(self._file(one) for one in values):
                for one in values:
                    self._add_file(form, name, one)
            else:
                inner = self._nested(form, name, value)
                if isinstance(inner, str):
                    form.add_field(name, inner)
                else:
                    form.add_field(name, orjson.dumps(inner).decode(), content_type="application/json")
        return form()

    def _nested(self, form: aiohttp.FormData, path: str, value: Any) -> Any:
        """The value with the names of parts in place of files."""
        if self._file(value):
            self._add_file(form, path, value)
            return path
        if isinstance(value, dict):
            return {name: self._nested(form, f"{path}.{name}", one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._nested(form, f"{path}.{index}", one) for index, one in enumerate(value)]
        return value

    def _file(self, value: Any) -> InputFile | None:
        return self._tokens.get(value.encode()) if isinstance(value, str) else None

    def _add_file(self, form: aiohttp.FormData, name: str, token: str) -> None:
        file = self._tokens[token.encode()]
        filename = "".join(char for char in file.name if char.isprintable()) or "file"
        form.add_field(name, _Streamed(self._bytes(file), file.bytes, file.content_type), filename=filename)

    async def _bytes(self, file: InputFile) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._store.get(file.object):
                size += len(chunk)
                yield chunk
        except ObjectNotFoundError as error:
            self.error = input_file_missing(file.id, "it was deleted")
            raise self.error from error
        except FileStoreError as error:
            log.warning("input_not_read", reason=str(error))
            self.error = file_store_unavailable()
            raise self.error from error
        if size != file.bytes:
            self.error = input_file_missing(file.id, f"it has {size} bytes in place of {file.bytes}")
            raise self.error


class _Streamed(aiohttp.AsyncIterablePayload):
    """Sent with its length: some servers reject chunked requests."""

    def __init__(self, pieces: AsyncIterator[bytes], length: int, content_type: str) -> None:
        super().__init__(pieces, content_type=content_type)
        self._length = length

    @property
    def size(self) -> int:
        return self._length


async def _base64(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        data = rest + chunk
        cut = len(data) - len(data) % 3
        rest = data[cut:]
        yield b64encode(data[:cut])
    yield b64encode(rest)
