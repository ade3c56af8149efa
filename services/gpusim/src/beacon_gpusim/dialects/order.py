"""What every dialect comes down to: an order for the GPU, an answer, a failure."""

from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

import orjson

from beacon_gpusim.core.answers import Prompt
from beacon_gpusim.core.calls import Call

_NAME_LENGTH = 200


class BadInputError(Exception):
    """The request cannot be understood; the message says which field and why."""

    def __init__(self, message: str, *, status: int = 422, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class Order:
    """One call, understood. `tokens` bounds the words of a chat answer."""

    request_id: str
    prompt: Prompt
    tokens: int | None = None
    stream: bool = False
    usage: bool = False


class Dialect(Protocol):
    name: str

    def parse(self, body: bytes, request_id: str | None) -> Order:
        """The order in the body; `request_id` is the header's. Raises BadInputError."""
        ...

    def answer(self, order: Order, call: Call, *, empty: bool) -> bytes: ...

    def failure(self, status: int, code: str, message: str) -> bytes: ...


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
        raise BadInputError(f"{where}{name}: a text of 1 to {_NAME_LENGTH} characters is needed")
    return value


def object_field(data: dict[str, Any], name: str, *, where: str = "") -> dict[str, Any]:
    """An object that may be left out."""
    value = data.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadInputError(f"{where}{name}: an object is needed")
    return value


def request_id_of(data: dict[str, Any], header: str | None) -> str:
    value = data.get("request_id")
    if value is None:
        return header or uuid4().hex
    if not isinstance(value, str) or not 0 < len(value) <= _NAME_LENGTH:
        raise BadInputError(f"request_id: a text of 1 to {_NAME_LENGTH} characters is needed")
    return value


def prompt_text(data: dict[str, Any]) -> str:
    """The prompt, or for other inputs everything that was given, in a fixed order."""
    value = data.get("prompt")
    return value if isinstance(value, str) else orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()


def duration_of(data: dict[str, Any]) -> float | None:
    value = data.get("duration")
    return float(value) if isinstance(value, int | float) else None
