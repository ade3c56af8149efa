"""API keys: read from the request, looked up by their hash, cached for a few seconds."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from cachetools import TLRUCache, TTLCache
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope as AsgiScope

from beacon_config import LiveConfig
from beacon_contracts.accounts import Scope
from beacon_http.problems import HttpProblemError
from beacon_lifecycle import Clock
from beacon_runner.domain.accounts.users import Principal, hash_key
from beacon_runner.http.route import Handler, StrictRoute

KEY_TTL_S = 5.0  # after a revocation in another process the key works for so long
UNKNOWN_KEY_TTL_S = 1.0
MAX_CACHED_KEYS = 10_000
MAX_WRONG_KEYS = 30  # of one client address
WRONG_KEYS_WINDOW_S = 60.0
SEEN_TTL_S = 3_600.0

_CHALLENGE = ((b"www-authenticate", b"Bearer"),)


class ApiKeyCache:
    """Finds the principal of a key.

    An address that has sent `MAX_WRONG_KEYS` different wrong keys is refused until its window ends.
    Keys that were valid in the last hour are exempt: other clients may share the address behind a proxy.
    """

    def __init__(
        self,
        find: Callable[[bytes], Awaitable[Principal | None]],
        clock: Clock,
        live: LiveConfig,
    ) -> None:
        self._find = find
        self._live = live
        self._principals: TLRUCache[bytes, Principal | None] = TLRUCache(
            MAX_CACHED_KEYS,
            ttu=lambda _, principal, now: now + (UNKNOWN_KEY_TTL_S if principal is None else KEY_TTL_S),
            timer=clock.now,
        )
        self._seen: TTLCache[bytes, bool] = TTLCache(MAX_CACHED_KEYS, SEEN_TTL_S, timer=clock.now)
        self._wrong: TTLCache[str, set[bytes]] = TTLCache(
            MAX_CACHED_KEYS, WRONG_KEYS_WINDOW_S, timer=clock.now
        )

    async def require(self, scope: AsgiScope, *accepted: Scope) -> Principal:
        """The request's principal; 401 without a valid key, 403 when the key has none of the scopes."""
        key_hash = key_hash_of(scope)
        address = scope["client"][0] if scope.get("client") else ""
        if len(self._wrong.get(address, ())) >= MAX_WRONG_KEYS and key_hash not in self._seen:
            detail = f"this address has sent {MAX_WRONG_KEYS} wrong keys; wait before you try another"
            raise HttpProblemError(429, "too_many_wrong_keys", detail, retry_after_s=WRONG_KEYS_WINDOW_S)
        try:
            return await self.require_key(key_hash, *accepted)
        except UnknownKeyError:
            self._wrong.setdefault(address, set()).add(key_hash)
            raise

    async def require_key(self, key_hash: bytes, *accepted: Scope) -> Principal:
        try:
            principal = self._principals[key_hash]
        except KeyError:
            principal = await self._find(key_hash)
            if principal is not None:
                principal = replace(principal, tier=self._live.current.known_tier(principal.tier))
                self._seen[key_hash] = True
            self._principals[key_hash] = principal
        if principal is None:
            raise UnknownKeyError
        if principal.scopes.isdisjoint(accepted):
            needed = " or ".join(accepted)
            raise HttpProblemError(403, "missing_scope", f"this needs a key with the scope {needed}")
        return principal

    def clear(self) -> None:
        """After any change of users or keys in this process."""
        self._principals.clear()


class UnknownKeyError(HttpProblemError):
    def __init__(self) -> None:
        super().__init__(401, "unknown_key", "this key is unknown, expired or revoked", headers=_CHALLENGE)


def require_scope(keys: ApiKeyCache, *accepted: Scope) -> type[StrictRoute]:
    """For `APIRouter(route_class=...)`: a key with one of these scopes.

    It is checked before path, query and body are read.
    """

    class AuthenticatedRoute(StrictRoute):
        def get_route_handler(self) -> Handler:
            handle = self.endpoint_handler()

            async def check_key(request: Request) -> Response:
                request.state.principal = await keys.require(request.scope, *accepted)
                if request.scope["query_string"]:
                    self.check_query(request)
                return await handle(request)

            return check_key

    return AuthenticatedRoute


def principal_of(request: Request) -> Principal:
    """The principal of a request to a route of `require_scope`."""
    principal: Principal = request.state.principal
    return principal


def key_hash_of(scope: AsgiScope) -> bytes:
    """The hash of the key in `Authorization: Bearer` or `X-API-Key`; 401 without one."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, key = value.decode("latin-1").partition(" ")
            if kind.lower() == "bearer" and key.strip():
                return hash_key(key.strip())
            break
        if name == b"x-api-key" and value:
            return hash_key(str(value, "latin-1"))
    raise HttpProblemError(401, "missing_key", "send your key as Authorization: Bearer", headers=_CHALLENGE)


def has_key(scope: AsgiScope) -> bool:
    return any(name in (b"authorization", b"x-api-key") for name, _ in scope["headers"])
