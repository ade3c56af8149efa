"""Who asks: keys looked up by hash, remembered for a moment, forgotten at once when they are revoked here."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.types import Scope as AsgiScope

from beacon_contracts.accounts import Scope
from beacon_contracts.ids import UserId
from beacon_http.problems import HttpProblemError
from beacon_lifecycle import Clock
from beacon_runner.postgres.users import Principal, hash_of

_CHALLENGE = ((b"www-authenticate", b"Bearer"),)


@dataclass(slots=True)
class _Remembered:
    principal: Principal | None
    until: float


class ApiKeyCache:
    """A revocation elsewhere is honoured after `ttl_s`; an unknown key is asked for again sooner."""

    def __init__(
        self,
        look_up: Callable[[bytes], Awaitable[Principal | None]],
        clock: Clock,
        *,
        ttl_s: float = 5.0,
        unknown_ttl_s: float = 1.0,
        most: int = 10_000,
    ) -> None:
        self._look_up = look_up
        self._clock = clock
        self._ttl_s = ttl_s
        self._unknown_ttl_s = unknown_ttl_s
        self._most = most
        self._by_hash: OrderedDict[bytes, _Remembered] = OrderedDict()

    async def require(self, scope: AsgiScope, needed: Scope) -> Principal:
        """The request's user; 401 without a valid key, 403 when the key lacks the scope."""
        return await self.require_key(shown_key(scope), needed)

    async def require_key(self, key_hash: bytes, needed: Scope) -> Principal:
        principal = await self._find(key_hash)
        if principal is None:
            raise HttpProblemError(
                401, "unknown_key", "this key is unknown, expired or revoked", headers=_CHALLENGE
            )
        if needed not in principal.scopes:
            raise HttpProblemError(403, "scope_missing", f"this needs a key with the scope {needed}")
        return principal

    def forget(self) -> None:
        """After any change of users or keys in this process."""
        self._by_hash.clear()

    async def _find(self, key_hash: bytes) -> Principal | None:
        found = self._by_hash.get(key_hash)
        if found is not None and found.until > self._clock.now():
            return found.principal
        principal = await self._look_up(key_hash)
        ttl_s = self._unknown_ttl_s if principal is None else self._ttl_s
        self._by_hash[key_hash] = _Remembered(principal, self._clock.now() + ttl_s)
        self._by_hash.move_to_end(key_hash)
        while len(self._by_hash) > self._most:
            self._by_hash.popitem(last=False)
        return principal


def shown_key(scope: AsgiScope) -> bytes:
    """The hash of the request's key: keys themselves are kept nowhere."""
    key = _presented(scope)
    if key is None:
        raise HttpProblemError(401, "no_key", "send your key as Authorization: Bearer", headers=_CHALLENGE)
    return hash_of(key)


def _presented(scope: AsgiScope) -> str | None:
    """The key in `Authorization: Bearer` or `X-API-Key`."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, key = value.decode("latin-1").partition(" ")
            return key.strip() or None if kind.lower() == "bearer" else None
        if name == b"x-api-key":
            return str(value, "latin-1") or None
    return None


def owner_of(principal: Principal) -> UserId | None:
    """Whose jobs this key may touch; None stands for everybody's."""
    return None if Scope.ADMIN in principal.scopes else principal.user
