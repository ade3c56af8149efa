"""Removes secrets from log lines of all loggers."""

import re
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from typing import Any

REDACTED = "[redacted]"

# Whole words at the end of a name: `api_key` and `X-API-Key` are secrets, `max_tokens` and `monkey` are not.
_SECRET_NAME = re.compile(
    r"(^|_)(api_?keys?|keys?|token|password|passwd|secret|authorization|cookie|credentials?)$"
)
_URL_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(@)")
_BEARER = re.compile(r"\b(bearer)\s+[^\s,;'\"]+", re.IGNORECASE)


def redact(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor that hides secret fields, passwords in URLs and bearer tokens."""
    for name, value in event.items():
        event[name] = redacted(name, value)
    return event


def redacted(name: str, value: Any) -> Any:
    """The value as it is logged under this name."""
    if is_secret(name) and value is not None:
        return REDACTED
    if isinstance(value, str | bytes):
        return _masked(value)
    if isinstance(value, Mapping):
        return {key: redacted(_text(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return _redacted_items(value)
    return value


@lru_cache(maxsize=1024)
def is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name.lower().replace("-", "_")) is not None


def _redacted_items(items: list[Any] | tuple[Any, ...]) -> list[Any]:
    """Lists of headers are pairs of name and value, in which the name decides."""
    return [
        (_text(item[0]), redacted(_text(item[0]), item[1])) if _is_pair(item) else redacted("", item)
        for item in items
    ]


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str | bytes)


def _masked(value: str | bytes) -> str:
    text = _URL_PASSWORD.sub(rf"\1{REDACTED}\2", _text(value))
    return _BEARER.sub(rf"\1 {REDACTED}", text)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
