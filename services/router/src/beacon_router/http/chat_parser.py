"""From an OpenAI request to an InferenceSpec."""

from math import inf
from typing import Any
from uuid import uuid4

from starlette.types import Scope

from beacon_config import BeaconConfig
from beacon_lifecycle import Clock
from beacon_router.http.bodies import json_object, json_text
from beacon_router.http.callers import Caller
from beacon_router.http.chat_errors import ChatError
from beacon_router.http.work_size import WorkSizes
from beacon_router.scheduling import Health, RequestId, Scheduler
from beacon_router.service.breakers import Breakers
from beacon_router.service.inference import InferenceSpec
from beacon_router.service.streams import StreamSink

REGION_HEADER = b"x-beacon-region"
_NOT_PARAMS = frozenset({"model", "messages", "stream", "user"})


class ChatParser:
    def __init__(
        self, config: BeaconConfig, *, scheduler: Scheduler, breakers: Breakers, clock: Clock
    ) -> None:
        self._config = config
        self._scheduler = scheduler
        self._breakers = breakers
        self._clock = clock
        self._sizes = WorkSizes(config.models)
        self._regions: dict[str, list[str]] = {}
        for backend in config.backends.values():
            for model in backend.models:
                places = self._regions.setdefault(model, [])
                if backend.region not in places:
                    places.append(backend.region)

    @property
    def models(self) -> list[str]:
        return list(self._regions)

    def parse(self, scope: Scope, body: bytes, caller: Caller) -> InferenceSpec:
        data = json_object(body)
        model = self._model(data)
        messages = _messages(data)
        requested = _header(scope, REGION_HEADER)
        params = {name: value for name, value in data.items() if name not in _NOT_PARAMS}
        given = {"messages": messages, "prompt": _last_user_text(messages)}
        return InferenceSpec(
            id=RequestId(f"chatcmpl-{uuid4().hex}"),
            model=model,
            region=self._region(model, requested, caller),
            tier=caller.tier,
            input=json_text("messages", given),
            params=json_text("body", params),
            user_id=caller.user_id,
            pinned=requested is not None,
            sink=StreamSink() if _flag(data, "stream") else None,
            work_size=self._sizes.of(model, params, given),
        )

    def _model(self, data: dict[str, Any]) -> str:
        model = data.get("model")
        if not isinstance(model, str) or not model:
            raise ChatError(400, "missing_model", "you must provide a model parameter", param="model")
        return self.known(model)

    def known(self, model: str) -> str:
        if model not in self._regions:
            raise ChatError(
                404, "model_not_found", f"The model {model[:80]!r} does not exist here", param="model"
            )
        return model

    def _region(self, model: str, requested: str | None, caller: Caller) -> str:
        """The region of the header, or the one with the shortest estimated wait."""
        if requested is not None:
            region = self._config.region_names.get(requested.casefold())
            if region is None:
                raise ChatError(400, "unknown_region", f"there is no region {requested[:60]!r}")
            return region
        now = self._clock.now()

        def wait_s(place: str) -> float:
            eta = self._scheduler.eta_of_new(now, model, place, caller.tier.rank)
            return inf if eta is None else eta.p50_s

        return min(self._healthy(model), key=wait_s)

    def _healthy(self, model: str) -> list[str]:
        up = [
            backend.region
            for name, backend in self._config.backends.items()
            if model in backend.models and self._breakers.health(name) is not Health.OPEN
        ]
        return up or self._regions[model]


def _messages(data: dict[str, Any]) -> list[dict[str, Any]]:
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ChatError(400, "invalid_messages", "messages must be a list of messages", param="messages")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ChatError(
                400, "invalid_messages", "a message has a role and a content", param=f"messages.{index}"
            )
    return messages


def _last_user_text(messages: list[dict[str, Any]]) -> str:
    """The last user message, for models that take a prompt."""
    candidates = [message for message in messages if message["role"] == "user"] or messages
    content = candidates[-1].get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def _flag(data: dict[str, Any], name: str) -> bool:
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        raise ChatError(400, "invalid_type", f"{name} must be true or false", param=name)
    return value is True


def _header(scope: Scope, wanted: bytes) -> str | None:
    for name, value in scope["headers"]:
        if name == wanted:
            return str(value, "latin-1")
    return None
