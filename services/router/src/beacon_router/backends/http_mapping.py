"""Any JSON or binary endpoint, by a mapping of the configuration with JMESPath expressions."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import jmespath
import orjson
from jmespath.exceptions import JMESPathError
from yarl import URL

from beacon_config.topology import HttpMapping
from beacon_router.backends.answer_reader import is_json, media_type
from beacon_router.backends.errors import bad_payload, reported_error, unusable_input
from beacon_router.backends.http_backend import timed_result
from beacon_router.backends.input_files import plain_form
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
        self._request = None if mapping.request is None else _compiled(mapping.request)
        self._output = None if mapping.output is None else jmespath.compile(mapping.output)
        self._error = None if mapping.error is None else jmespath.compile(mapping.error)
        self._usage = None if mapping.usage is None else jmespath.compile(mapping.usage)

    def request(self, call: BackendCall, *, attempt: int, stream: bool) -> WireRequest:  # noqa: ARG002
        given, params = orjson.loads(call.input), orjson.loads(call.params)
        if self._request is None:
            body = params | given
        else:
            source = {"request_id": call.id, "model": call.model, "input": given, "params": params}
            source["context"] = orjson.loads(call.context)
            body = _filled(self._request, source)
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
        if self._mapping.path is None:
            return self._url
        values = {"{model}": call.model, "{request_id}": call.id}
        path = self._mapping.path
        for name, value in values.items():
            path = path.replace(name, quote(value, safe=""))
        return URL(str(self._url).rstrip("/") + path, encoded=True)

    def _json_result(self, response: WireResponse) -> BackendResult:
        try:
            document = orjson.loads(response.body)
        except orjson.JSONDecodeError as error:
            raise bad_payload(f"the response is not JSON ({len(response.body)} bytes): {error}") from error
        if self._error is not None and (reported := _found(self._error, document)):
            text = reported if isinstance(reported, str) else orjson.dumps(reported).decode()
            raise reported_error(text)
        usage = None if self._usage is None else _found(self._usage, document)
        metrics = {"usage": usage, **usage} if isinstance(usage, dict) else {}
        if self._output is None:
            if response.status == _ACCEPTED:
                raise bad_payload("the response is 202 and the configuration names no output in it")
            return timed_result(document, metrics)
        output = _found(self._output, document)
        if output is None:
            raise bad_payload(f"the response has nothing at {self._mapping.output!r}")
        return timed_result(output, metrics)


def _compiled(value: Any) -> Any:
    match value:
        case str():
            return jmespath.compile(value)
        case dict():
            return {name: _compiled(inner) for name, inner in value.items()}
        case list():
            return [_compiled(inner) for inner in value]
        case _:
            return value


def _filled(value: Any, source: dict[str, Any]) -> Any:
    """The expressions replaced by what they find; fields without a value are left out."""
    match value:
        case dict():
            filled = {name: _filled(inner, source) for name, inner in value.items()}
            return {name: inner for name, inner in filled.items() if inner is not None}
        case list():
            return [_filled(inner, source) for inner in value]
        case bool() | int() | float():
            return value
        case _:
            try:
                return value.search(source)
            except JMESPathError as error:
                raise unusable_input(f"the request cannot be mapped for this backend: {error}") from error


def _found(expression: Any, document: Any) -> Any:
    try:
        return expression.search(document)
    except JMESPathError as error:
        raise bad_payload(f"the response does not fit the configuration: {error}") from error


def _query_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
