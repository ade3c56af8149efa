"""Interactive requests: run at once or queued at a router like jobs, but not stored."""

from collections.abc import AsyncGenerator, Mapping
from uuid import uuid4

from beacon_config import BeaconConfig
from beacon_contracts.ids import USER, encode_id
from beacon_contracts.inference import Failover, InferenceRequest
from beacon_runner.domain.chat import MODEL_NOT_FOUND, ChatRequest, InvalidChatError
from beacon_runner.domain.users import Principal
from beacon_runner.ports.interactive import InteractiveEvent, InteractivePort


class InteractiveRun:
    """One request; `events` ends with a terminal state, and cancels the inference when it is closed."""

    def __init__(self, request_id: str, events: AsyncGenerator[InteractiveEvent]) -> None:
        self.id = request_id
        self.events = events


class InteractiveService:
    def __init__(self, config: BeaconConfig, router: InteractivePort) -> None:
        self._router = router
        self._regions: Mapping[str, str] = config.region_names
        self.models: list[str] = list(config.models)

    def known_model(self, model: str) -> str:
        if model not in self.models:
            message = f"The model {model[:80]!r} does not exist here"
            raise InvalidChatError(MODEL_NOT_FOUND, message, "model")
        return model

    def start(self, principal: Principal, chat: ChatRequest, region: str | None) -> InteractiveRun:
        """`region`: it runs there or nowhere. Raises InvalidChatError."""
        request = InferenceRequest(
            request_id=f"chatcmpl-{uuid4().hex}",
            model=self.known_model(chat.model),
            region=None if region is None else self._region(region),
            input=chat.input,
            params=dict(chat.params),
            tier=principal.tier,
            user_id=encode_id(USER, principal.user),
            weight=principal.weight,
            failover=Failover.ANY if region is None else Failover.PINNED,
            stream=chat.stream,
        )
        return InteractiveRun(request.request_id, self._router.stream(request))

    def _region(self, name: str) -> str:
        region = self._regions.get(name.casefold())
        if region is None:
            raise InvalidChatError("unknown_region", f"there is no region {name[:60]!r}", "X-Beacon-Region")
        return region
