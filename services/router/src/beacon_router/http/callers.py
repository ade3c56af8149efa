"""Who talks to the OpenAI-compatible door: the service itself, or a user whose key the runner knows."""

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

_KNOWN_S = 60.0
_UNKNOWN_S = 5.0
_REMEMBERED = 10_000
_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Caller:
    user_id: str
    tier: Tier


class RunnerAwayError(Exception):
    """The runner cannot be asked whose key it is."""


class ApiKeyCache:
    """Asks the runner whose key it is, and remembers the answer for a minute under the key's hash."""

    def __init__(self, client: httpx.AsyncClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Caller | None]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Lock] = {}

    async def caller_of(self, key: str) -> Caller | None:
        """None: the runner does not know the key."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
        if not self._remembers(digest):
            # Many requests with a key that is new come at once: the runner is asked one time.
            try:
                async with self._asking.setdefault(digest, asyncio.Lock()):
                    if not self._remembers(digest):
                        self._remember(digest, await self._who(key))
            finally:
                self._asking.pop(digest, None)
        return self._known[digest][1]

    def _remembers(self, digest: bytes) -> bool:
        known = self._known.get(digest)
        return known is not None and known[0] > self._clock.now()

    def _remember(self, digest: bytes, caller: Caller | None) -> None:
        seconds = _UNKNOWN_S if caller is None else _KNOWN_S
        self._known[digest] = (self._clock.now() + seconds, caller)
        self._known.move_to_end(digest)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    async def _who(self, key: str) -> Caller | None:
        if not (key.isascii() and key.isprintable()):
            return None  # none that the runner has made, and none that a header carries safely
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                answer = await self._client.get("/api/v1/me", headers={"authorization": f"Bearer {key}"})
        except (httpx.HTTPError, OSError, TimeoutError, ValueError) as error:
            raise RunnerAwayError(str(error) or type(error).__name__) from error
        if answer.status_code in (401, 403):
            return None
        try:
            me = Me.model_validate_json(answer.content)
        except ValidationError as error:
            log.warning("runner_answer_not_understood", status=answer.status_code)
            raise RunnerAwayError(f"the runner answered {answer.status_code}") from error
        return Caller(me.user_id, me.tier)
