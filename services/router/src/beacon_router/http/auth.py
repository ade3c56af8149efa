"""Authentication by the service token, compared in constant time."""

import hmac

from starlette.types import Scope

from beacon_http.problems import HttpProblemError

_CHALLENGE = ((b"www-authenticate", b"Bearer"),)


def presented_key(scope: Scope) -> str | None:
    """The key in `Authorization: Bearer` or `X-API-Key`: one character for each byte that was sent."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, key = value.decode("latin-1").partition(" ")
            return key.strip(" \t") if kind.lower() == "bearer" else None
        if name == b"x-api-key":
            return str(value, "latin-1")
    return None


class ServiceAuth:
    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def check(self, scope: Scope) -> None:
        key = presented_key(scope)
        if key is None:
            raise HttpProblemError(
                401, "no_token", "send the service token as Authorization: Bearer", headers=_CHALLENGE
            )
        if not hmac.compare_digest(key.encode("latin-1"), self._token):
            raise HttpProblemError(403, "wrong_token", "this is not the service token")
