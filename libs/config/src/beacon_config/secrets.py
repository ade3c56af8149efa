"""Secrets that stand in a document itself. A stored document has the names of their variables instead."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from beacon_config.topology import ENV

_ADDRESSES = ("url", "health_url", "proxy")
_REASON = "has a secret in clear text; write `env:NAME`, the name of an environment variable of the router"


def literal_secrets(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Keys and reasons: headers and logins that are no `env:NAME`, and addresses with a password."""
    backends = document.get("backends")
    if not isinstance(backends, Mapping):
        return []
    return [
        (f"backends.{name}.{key}", _REASON)
        for name, backend in backends.items()
        if isinstance(backend, Mapping)
        for key in _literal_keys(backend)
    ]


def _literal_keys(backend: Mapping[str, Any]) -> Iterator[str]:
    headers = backend.get("headers")
    for header, value in headers.items() if isinstance(headers, Mapping) else ():
        if not str(value).startswith(ENV):
            yield f"headers.{header}"
    if not str(backend.get("basic_auth", ENV)).startswith(ENV):
        yield "basic_auth"
    yield from (key for key in _ADDRESSES if _has_password(str(backend.get(key, ""))))


def _has_password(address: str) -> bool:
    try:
        return "@" in urlsplit(address).netloc
    except ValueError:
        return False  # the validation reports it
