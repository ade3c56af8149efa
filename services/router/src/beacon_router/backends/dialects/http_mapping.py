"""Any JSON or binary endpoint, by a mapping of the configuration with JMESPath expressions."""

from collections.abc import Mapping
from typing import Any

import jmespath
import orjson
from yarl import URL

from beacon_config.mappings import HttpMapping
from beacon_router.backends.answer_reader import is_json, media_type
from beacon_router.backends.errors import bad_payload, reported_error
from beacon_router.backends.expressions import body_of, compiled, found, path_of
from beacon_router.backends.http_backend import timed_result
from beacon_router.backends.input_files import plain_form
from beacon_router.backends.progress import ProgressExpressions
from beacon_router.backends.types import (
    BackendCall,
    BackendResult,
    WireRequest,
    WireResponse,
)

_ACCEPTED = 202


class HttpDialect:
    streams = False
    file_value = staticmethod(plain_form)

    def __init__(self, url: URL, headers: Mapping[str, str], mapping: HttpMapping) -> None:
        self._url = url
        self._headers = headers
        self._mapping = mapping
        self.progress = ProgressExpressions(mapping)
        self._request = None if mapping.request is None else compiled(mapping.request)
        self._output = None if mapping.output is None else jmespath.compile(mapping.output)
        self._error = None if mapping.error is None else jmespath.compile(mapping.error)
        self._usage = None if mapping.usage is None else jmespath.compile(mapping.usage)

    def request(
        self,
        call: BackendCall,
        *,
        attempt: int,  # noqa: ARG002
        stream: bool,  # noqa: ARG002
        count_tokens: bool = False,  # noqa: ARG002
    ) -> WireRequest:
        body = body_of(self._request, call)
        url = self._target(call)
        if self._mapping.method == "GET":
            query = {name: _query_text(value) for name, value in body.items() if value is not None}
            return WireRequest("GET", url.update_query(query), self._headers)
        headers = {**self._headers, "content-type": "application/json"}
        return WireRequest(self._mapping.method, url, headers, orjson.dumps(body))

    def result(self, response: WireResponse) -> BackendResult:
        """JSON where the type says so or is missing, text as a string."""
        content_type = media_type(response)
        if not response.body and self._output is None and response.status != _ACCEPTED:
            return BackendResult(b"null")
        if is_json(content_type):
            return self._json_result(response)
        if self._output is not None:
            raise bad_payload(
                f"the response is {content_type}, but its output is configured as a part of JSON"
            )
        return BackendResult(orjson.dumps(response.body.decode("utf-8", "replace")))

    def _target(self, call: BackendCall) -> URL:
        return self._url if self._mapping.path is None else path_of(self._url, self._mapping.path, call)

    def _json_result(self, response: WireResponse) -> BackendResult:
        try:
            document = orjson.loads(response.body)
        except orjson.JSONDecodeError as error:
            raise bad_payload(f"the response is not JSON ({len(response.body)} bytes): {error}") from error
        if self._error is not None and (reported := found(self._error, document)):
            text = reported if isinstance(reported, str) else orjson.dumps(reported).decode()
            raise reported_error(text)
        usage = None if self._usage is None else found(self._usage, document)
        metrics = {"usage": usage, **usage} if isinstance(usage, dict) else {}
        if self._output is None:
            if response.status == _ACCEPTED:
                raise bad_payload("the response is 202 and the configuration names no output in it")
            return timed_result(document, metrics)
        output = found(self._output, document)
        if output is None:
            raise bad_payload(f"the response has nothing at {self._mapping.output!r}")
        return timed_result(output, metrics)


def _query_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
