"""The interface of a dialect: a parsed call, a response, an error."""

from base64 import b64decode
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol
from uuid import uuid4

import orjson

from beacon_gpusim.core.calls import Call
from beacon_gpusim.core.outputs import Prompt

_NAME_LENGTH = 200
_MIN_FILE_LENGTH = 256  # shorter text fields are not taken for files

Fields = dict[str, Any]


class BadInputError(Exception):
    """The request is invalid; the message names the field and the reason."""

    def __init__(self, message: str, *, status: int = 422, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """One valid call. `tokens` limits the words of a chat response."""

    request_id: str
    prompt: Prompt
    tokens: int | None = None
    stream: bool = False
    usage: bool = False
    tool: tuple[str, str] | None = None
    """Name and arguments of the tool call that replaces the answer."""
    text: str | None = None
    """The answer, if the request determines it."""


class SimulatedDialect(Protocol):
    name: str

    def parse(self, body: bytes, request_id: str | None) -> ParsedCall:
        """Parse the body of a call; `request_id` is the one of the header. Raises BadInputError."""
        ...

    def response(self, parsed: ParsedCall, call: Call, *, empty: bool, media: Fields | None = None) -> bytes:
        """The body; with `media` these fields are the output in place of text."""
        ...

    def error(self, status: int, code: str, message: str) -> bytes: ...


def json_object(body: bytes) -> dict[str, Any]:
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadInputError(f"the body is not JSON: {error}", status=400, code="invalid_json") from None
    if not isinstance(data, dict):
        raise BadInputError("the body must be a JSON object", status=400, code="invalid_json")
    return data


def text_field(data: dict[str, Any], name: str, *, where: str = "") -> str:
    value = data.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _NAME_LENGTH:
        raise BadInputError(f"{where}{name}: must be a string of 1 to {_NAME_LENGTH} characters")
    return value


def object_field(data: dict[str, Any], name: str, *, where: str = "") -> dict[str, Any]:
    """An optional object."""
    value = data.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadInputError(f"{where}{name}: must be an object")
    return value


def request_id_of(data: dict[str, Any], header: str | None) -> str:
    value = data.get("request_id")
    if value is None:
        return header or uuid4().hex
    if not isinstance(value, str) or not 0 < len(value) <= _NAME_LENGTH:
        raise BadInputError(f"request_id: must be a string of 1 to {_NAME_LENGTH} characters")
    return value


def prompt_of(model: str, region: str, data: dict[str, Any]) -> Prompt:
    """The prompt in an input; for other inputs the whole input as JSON with sorted keys."""
    files = {name: _file_of(value) for name, value in data.items()}
    inputs = {name: found for name, found in files.items() if found is not None}
    text = data.get("prompt")
    if not isinstance(text, str):
        named = {name: value["sha256"] for name, value in inputs.items()}
        text = orjson.dumps(data | named, option=orjson.OPT_SORT_KEYS).decode()
    duration, seed = data.get("duration"), data.get("seed")
    return Prompt(
        model=model,
        region=region,
        text=text,
        duration_s=float(duration) if isinstance(duration, int | float) and duration > 0 else None,
        seed=seed if isinstance(seed, int) else None,
        inputs=inputs,
    )


def _file_of(value: object) -> dict[str, Any] | None:
    """Size and checksum of a file that a field has as base64 or data URL."""
    if not isinstance(value, str) or len(value) < _MIN_FILE_LENGTH:
        return None
    try:
        content = b64decode(value.partition(";base64,")[2] or value, validate=True)
    except ValueError:
        return None
    return {"bytes": len(content), "sha256": sha256(content).hexdigest()}
