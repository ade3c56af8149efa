"""Fetches the files that an output names by URL, from allowed hosts alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import aiohttp
import orjson
from yarl import URL

from beacon_router.backends.client import DIRECT, BackendClient, BackendTransport, same_origin
from beacon_router.backends.errors import bad_payload, output_not_fetched
from beacon_router.backends.output_files import OutputFiles
from beacon_router.backends.types import BackendError, WireRequest, WireResponse

MAX_URL_LENGTH = 8_000
MAX_ERROR_BYTES = 65_536
MAX_FETCH_REDIRECTS = 5


class OutputUrls:
    def __init__(
        self,
        client: BackendClient,
        origin: URL,
        hosts: Sequence[str],
        *,
        headers: Mapping[str, str],
        transport: BackendTransport = DIRECT,
    ) -> None:
        """`origin`: of the backend, which alone gets its credentials. `hosts`: names, or `*.` and a name."""
        self._client = client
        self._origin = origin
        self._hosts = hosts
        self._headers = headers
        self._transport = transport

    async def fetched(self, output: bytes, files: OutputFiles) -> bytes:
        """The output with a reference in place of each text that is an allowed URL."""
        if b"http" not in output:
            return output
        document = orjson.loads(output)
        references: dict[str, dict[str, Any]] = {}
        for text in _texts(document):
            url = self._allowed(text)
            if url is not None and text not in references:
                references[text] = await self._fetch(url, files)
        return orjson.dumps(_replaced(document, references)) if references else output

    def _allowed(self, text: str) -> URL | None:
        if not text.startswith(("http://", "https://")) or len(text) > MAX_URL_LENGTH:
            return None
        try:
            url = URL(text)
            return url if self._may_fetch(url) else None
        except ValueError:
            return None

    def _may_fetch(self, url: URL) -> bool:
        if url.user is not None or url.password is not None or url.scheme not in ("http", "https"):
            return False
        if same_origin(url, self._origin):
            return True
        host = url.host or ""
        name = host if url.is_default_port() else f"{host}:{url.port}"
        return any(name == one or (one.startswith("*.") and name.endswith(one[1:])) for one in self._hosts)

    async def _fetch(self, url: URL, files: OutputFiles) -> dict[str, Any]:
        redirects = 0

        def follow(request: WireRequest, response: WireResponse) -> WireRequest:
            nonlocal redirects
            redirects += 1
            try:
                target = request.url.join(URL(response.headers.get("location", "")))
                followed = redirects <= MAX_FETCH_REDIRECTS and self._may_fetch(target)
            except ValueError as error:
                raise bad_payload(f"a redirect without a usable address: {error}") from error
            if not followed:
                raise bad_payload(f"a redirect to {target.host}, which is not in fetch_hosts, or too many")
            return self._request(target)

        own = same_origin(url, self._origin)
        host = "the backend" if own else url.host  # its address is not for users
        transport = self._transport if own else DIRECT
        try:
            response = await self._client.send(
                self._request(url),
                replace(transport, proxy=self._transport.proxy),
                max_bytes=MAX_ERROR_BYTES,
                reader=FileReader(files, url.name),
                follow=follow,
            )
        except BackendError as error:
            if error.fault is not None and error.code == "file_store_unavailable":
                raise
            raise output_not_fetched(f"{host}: {error.code}", retryable=error.retryable) from error
        if response.file is None:
            reason = f"{host} answered {response.status}"
            raise output_not_fetched(reason, retryable=response.status >= 500 or response.status == 429)
        return dict(response.file)

    def _request(self, url: URL) -> WireRequest:
        return WireRequest("GET", url, self._headers if same_origin(url, self._origin) else {})


class FileReader:
    """Keeps an answer as a file, whatever it is."""

    def __init__(self, files: OutputFiles, name: str) -> None:
        self._files = files
        self._name = name

    async def read(self, head: WireResponse, content: aiohttp.StreamReader) -> WireResponse:
        return head._replace(file=await self._files.save(content.iter_any(), name=self._name))


def _texts(value: Any) -> list[str]:
    """All texts of a JSON value."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in _texts(one)]


def _replaced(value: Any, references: Mapping[str, dict[str, Any]]) -> Any:
    if isinstance(value, str):
        return references.get(value, value)
    if isinstance(value, dict):
        return {name: _replaced(one, references) for name, one in value.items()}
    return [_replaced(one, references) for one in value] if isinstance(value, list) else value
