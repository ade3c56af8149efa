"""Interactive requests: limited, queued and run like jobs, but not stored."""

from collections.abc import Awaitable
from typing import Protocol
from uuid import uuid4

from beacon_config import BeaconConfig, Derived, LiveConfig
from beacon_contracts.ids import USER, UserId, encode_id
from beacon_contracts.inference import Failover, InferenceRequest
from beacon_contracts.tiers import Tier
from beacon_lifecycle import Clock
from beacon_runner.application.interactive_usage import RunMeter, UsageRecorder
from beacon_runner.domain.accounts.users import Principal
from beacon_runner.domain.errors import LimitReachedError
from beacon_runner.domain.inputs.chat import MODEL_NOT_FOUND, ChatRequest, InvalidChatError, unsupported
from beacon_runner.domain.inputs.encoded_request import EncodedRequest, encode_request
from beacon_runner.domain.limits.job_quota import LimitReached, QuotaLimit
from beacon_runner.domain.limits.request_quota import Admitted, Refused, RequestQuota
from beacon_runner.domain.limits.tier_rules import request_problems
from beacon_runner.ports.interactive import InteractiveEvent, InteractivePort
from beacon_runner.ports.request_limits import RequestLimits


class RequestRefusedError(Exception):
    """The user has reached a limit."""

    def __init__(self, refused: Refused, tier: str) -> None:
        super().__init__(refused.reached)
        self.refused = refused
        self.tier = tier


class Responder(Protocol):
    """Gets the events of a request, of which a terminal state is the last."""

    def admitted(self, request_id: str, admission: Admitted) -> None:
        """Before the first event."""
        ...

    def on_event(self, event: InteractiveEvent) -> Awaitable[None]: ...


class InteractiveService:
    def __init__(
        self,
        live: LiveConfig,
        router: InteractivePort,
        limits: RequestLimits,
        usage: UsageRecorder,
        clock: Clock,
    ) -> None:
        self._live = live
        self._router = router
        self._limits = limits
        self._usage = usage
        self._clock = clock
        self._quotas = Derived(live, _quotas)

    def models(self, tier: str) -> list[str]:
        """The chat models that the tier may use."""
        config = self._live.current
        allowed = config.tiers[config.known_tier(tier)]
        return [name for name in config.chat_models if allowed.allows(name)]

    def check_model(self, model: str) -> None:
        if model not in self._live.current.models:
            message = f"The model {model[:80]!r} does not exist here"
            raise InvalidChatError(MODEL_NOT_FOUND, message, "model")
        if model not in self._live.current.chat_models:
            raise InvalidChatError("not_a_chat_model", f"{model} is not a chat model; submit a job", "model")

    def check_listed(self, model: str, tier: str) -> None:
        """Raises InvalidChatError for a model that the tier may not use."""
        self.check_model(model)
        if model not in self.models(tier):
            raise InvalidChatError(MODEL_NOT_FOUND, f"Your tier may not use the model {model!r}", "model")

    def request_of(self, principal: Principal, chat: ChatRequest, region: str | None) -> EncodedRequest:
        """`region`: it runs there or nowhere. Raises InvalidChatError."""
        self.check_model(chat.model)
        tier = self._live.current.known_tier(principal.tier)
        for problem in request_problems(self._live.current, tier, chat.model, chat.params):
            raise InvalidChatError(problem.code, f"{problem.field}: {problem.message}", problem.field)
        place = None if region is None else self._region(region)
        self._check_capabilities(chat, place)
        request = InferenceRequest(
            request_id=f"chatcmpl-{uuid4().hex}",
            model=chat.model,
            region=place,
            input=chat.input,
            params=dict(chat.params),
            tier=tier,
            user_id=encode_id(USER, principal.user),
            weight=principal.weight,
            failover=Failover.ANY if place is None else Failover.PINNED,
            needs=list(chat.needs),
            stream=chat.stream,
        )
        return encode_request(request)

    async def run(self, principal: Principal, request: EncodedRequest, responder: Responder) -> None:
        """It counts until it has ended; cancelling the call cancels it."""
        tier = self._live.current.known_tier(principal.tier)
        quota = self._quotas()[tier]
        await self._check_gpu_seconds(principal.user, tier)
        admission = await self._limits.admit(principal.user, quota, request.head.request_id)
        if isinstance(admission, Refused):
            raise RequestRefusedError(admission, tier)
        meter = RunMeter(self._clock)

        def on_event(event: InteractiveEvent) -> Awaitable[None]:
            meter.note(event)
            return responder.on_event(event)

        try:
            responder.admitted(request.head.request_id, admission)
            await self._router.stream(request, on_event)
        finally:
            self._usage.add(meter.usage(principal))
            await self._limits.release(admission)

    async def _check_gpu_seconds(self, user: UserId, tier: Tier) -> None:
        """Raises LimitReachedError. Runs count when they have ended, as those of jobs do."""
        allowed = self._live.current.tiers[tier].gpu_seconds_per_day
        if allowed is None:
            return
        used = await self._usage.today(user)
        if used.gpu_s >= allowed:
            limit = QuotaLimit.GPU_SECONDS_PER_DAY
            reached = LimitReached(limit, allowed, round(used.gpu_s), used.day_ends_in_s)
            raise LimitReachedError({0: reached}, tier, used.day_ends_in_s, batch=False)

    def _region(self, name: str) -> str:
        region = self._live.current.region_names.get(name.casefold())
        if region is None:
            raise InvalidChatError("unknown_region", f"there is no region {name[:60]!r}", "X-Beacon-Region")
        return region

    def _check_capabilities(self, chat: ChatRequest, region: str | None) -> None:
        backends = [
            backend
            for backend in self._live.current.backends.values()
            if chat.model in backend.models and region in (None, backend.region)
        ]
        if not backends:
            message = f"{chat.model} does not run in {region}"
            raise InvalidChatError("not_served", message, "X-Beacon-Region")
        if not chat.needs:
            return
        if (param := unsupported(chat.needs, [backend.able for backend in backends])) is not None:
            where = f" in {region}" if region else ""
            message = f"no backend of {chat.model}{where} supports {param}"
            raise InvalidChatError("unsupported_parameter", message, param)


def _quotas(config: BeaconConfig) -> dict[str, RequestQuota]:
    return {tier: RequestQuota.of(settings) for tier, settings in config.tiers.items()}
