"""The open event streams and WebSockets of a user, counted in all processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from beacon_config import BeaconConfig, Derived, LiveConfig
from beacon_contracts.ids import new_uuid
from beacon_http.problems import HttpProblemError
from beacon_runner.domain.accounts.users import Principal
from beacon_runner.domain.limits.request_quota import LimitState, Refused, RequestQuota
from beacon_runner.http.rate_limit_headers import rate_limit_headers
from beacon_runner.ports.request_limits import RequestLimits

STREAMS = "streams"
RETRY_S = 5.0  # another stream has to end first


class UserStreams:
    def __init__(self, limits: RequestLimits, live: LiveConfig) -> None:
        self._limits = limits
        self._live = live
        self._quotas = Derived(live, _quotas)

    @asynccontextmanager
    async def stream(self, principal: Principal) -> AsyncIterator[None]:
        """One stream of the user. Raises 429 when the user has as many as the tier allows."""
        quota = self._quotas()[self._live.current.known_tier(principal.tier)]
        admission = await self._limits.admit(principal.user, quota, str(new_uuid()))
        if isinstance(admission, Refused):
            raise _too_many(principal, admission.concurrent_requests)
        try:
            yield
        finally:
            await self._limits.release(admission)


def _quotas(config: BeaconConfig) -> dict[str, RequestQuota]:
    return {tier: RequestQuota.of_streams(settings) for tier, settings in config.tiers.items()}


def _too_many(principal: Principal, state: LimitState) -> HttpProblemError:
    tier, allowed = principal.tier, state.limit or 0
    detail = f"a user of tier {tier} may have {allowed} event streams open; close one and retry"
    return HttpProblemError(
        429,
        "too_many_streams",
        detail,
        headers=rate_limit_headers({STREAMS: state}),
        retry_after_s=RETRY_S,
        limit_name=STREAMS,
        limit=allowed,
        used=allowed - (state.remaining or 0),
        tier=tier,
    )
