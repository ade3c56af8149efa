"""Callers of the OpenAI-compatible API: the runner itself, or a user whose key the runner knows."""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass

import httpx
import structlog
from pydantic import ValidationError

from beacon_contracts.accounts import Me
from beacon_contracts.tiers import Tier
from beacon_lifecycle import Clock

log = structlog.get_logger(__name__)

KNOWN_TTL_S = 60.0
UNKNOWN_TTL_S = 5.0
MAX_CACHED = 10_000
LOOKUP_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Caller:
    user_id: str
    tier: Tier


class RunnerUnavailableError(Exception):
    """The key cannot be checked because the runner is unavailable."""


class CallerCache:
    """Looks keys up at the runner and caches the result for a minute under the key's hash."""

    def __init__(self, client: httpx.AsyncClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Caller | None]] = OrderedDict()
        self._pending: dict[bytes, asyncio.Lock] = {}

    async def caller_of(self, key: str) -> Caller | None:
        """None: the key is unknown to the runner."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
        if not self._is_cached(digest):
            # Concurrent requests with a new key cause one lookup.
            try:
                async with self._pending.setdefault(digest, asyncio.Lock()):
                    if not self._is_cached(digest):
                        self._store(digest, await self._look_up(key))
            finally:
                self._pending.pop(digest, None)
        return self._known[digest][1]

    def _is_cached(self, digest: bytes) -> bool:
        known = self._known.get(digest)
        return known is not None and known[0] > self._clock.now()

    def _store(self, digest: bytes, caller: Caller | None) -> None:
        seconds = UNKNOWN_TTL_S if caller is None else KNOWN_TTL_S
        self._known[digest] = (self._clock.now() + seconds, caller)
        self._known.move_to_end(digest)
        if len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)

    async def _look_up(self, key: str) -> Caller | None:
        if not (key.isascii() and key.isprintable()):
            return None  # the runner creates no such key, and a header cannot carry it
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT_S):
                answer = await self._client.get("/api/v1/me", headers={"authorization": f"Bearer {key}"})
        except (httpx.HTTPError, OSError, TimeoutError, ValueError) as error:
            raise RunnerUnavailableError(str(error) or type(error).__name__) from error
        if answer.status_code in (401, 403):
            return None
        try:
            me = Me.model_validate_json(answer.content)
        except ValidationError as error:
            log.warning("runner_response_invalid", status=answer.status_code)
            raise RunnerUnavailableError(f"the runner answered {answer.status_code}") from error
        return Caller(me.user_id, me.tier)
