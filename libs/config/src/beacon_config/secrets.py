"""Finds secrets in clear text in a document. A stored document may only name environment variables."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import HttpUrl, ValidationError

from beacon_config.topology import ENV

_VARIABLE = "has a secret in clear text; write `env:NAME`, the name of an environment variable of the router"
_LOGIN = "has a login in clear text; leave it out, and write `basic_auth = 'env:NAME'`"


def literal_secrets(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Keys and reasons: headers and logins that are no `env:NAME`, and addresses with a login."""
    backends = document.get("backends")
    if not isinstance(backends, Mapping):
        return []
    return [
        (f"backends.{name}.{key}", reason)
        for name, backend in backends.items()
        if isinstance(backend, Mapping)
        for key, reason in _literal_keys(backend)
    ]


def _literal_keys(backend: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    headers = backend.get("headers")
    for header, value in headers.items() if isinstance(headers, Mapping) else ():
        if not str(value).startswith(ENV):
            yield f"headers.{header}", _VARIABLE
    if not str(backend.get("basic_auth") or ENV).startswith(ENV):
        yield "basic_auth", _VARIABLE
    if _has_login(backend.get("proxy")):
        yield "proxy", _VARIABLE
    yield from ((key, _LOGIN) for key in ("url", "health_url") if _has_login(backend.get(key)))


def _has_login(address: object) -> bool:
    try:
        url = HttpUrl(str(address))
    except ValidationError:
        return False  # the validation reports it, or it is `env:NAME`
    return url.username is not None or url.password is not None
