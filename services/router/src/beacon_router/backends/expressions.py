"""JMESPath expressions of the configuration: bodies of requests, addresses, parts of answers."""

from typing import Any
from urllib.parse import quote

import jmespath
import orjson
from jmespath.exceptions import JMESPathError
from yarl import URL

from beacon_router.backends.errors import bad_payload, unusable_input
from beacon_router.backends.types import BackendCall


def compiled(value: Any) -> Any:
    """A request mapping with its expressions compiled."""
    match value:
        case str():
            return jmespath.compile(value)
        case dict():
            return {name: compiled(inner) for name, inner in value.items()}
        case list():
            return [compiled(inner) for inner in value]
        case _:
            return value


def body_of(request: Any, call: BackendCall, model: str | None = None) -> Any:
    """The body for a call, by a compiled request mapping; None: the params and the input in one object."""
    given, params = orjson.loads(call.input), orjson.loads(call.params)
    if request is None:
        return params | given
    source = {"request_id": call.id, "model": model or call.model, "input": given, "params": params}
    return _filled(request, source | {"context": orjson.loads(call.context)})


def path_of(url: URL, path: str, call: BackendCall, model: str | None = None, *, safe: str = "") -> URL:
    """The address of a call below the url of its backend."""
    for name, value in {"{model}": model or call.model, "{request_id}": call.id}.items():
        path = path.replace(name, quote(value, safe=safe))
    return URL(str(url).rstrip("/") + path, encoded=True)


def found(expression: Any, document: Any) -> Any:
    """What a compiled expression finds in an answer."""
    try:
        return expression.search(document)
    except JMESPathError as error:
        raise bad_payload(f"the response does not fit the configuration: {error}") from error


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
