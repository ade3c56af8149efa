"""From a body to an ask: checked once, names resolved, the payload kept as JSON text."""

from typing import Final

from beacon_config import BeaconConfig
from beacon_contracts.inference import Failover, InferenceRequest
from beacon_http.problems import HttpProblemError
from beacon_lifecycle import Clock
from beacon_router.backends.types import EMPTY_OBJECT
from beacon_router.http.bodies import json_object, json_text
from beacon_router.http.work_size import Sizes
from beacon_router.scheduling import RequestId
from beacon_router.service.inference import Ask, Payload

# Both are asked for in every request: the way to a validator through its class, and to an enum's member.
_VALIDATOR: Final = InferenceRequest.__pydantic_validator__
_PINNED: Final = Failover.PINNED


class InferenceParser:
    def __init__(self, config: BeaconConfig, clock: Clock) -> None:
        self._regions = config.region_names
        self._models = config.models
        self._sizes = Sizes(config.models)
        self._clock = clock

    def read(self, body: bytes) -> tuple[Ask, Payload]:
        request: InferenceRequest = _VALIDATOR.validate_python(json_object(body))
        ask = Ask(
            id=RequestId(request.request_id),
            model=self.model(request.model),
            region=self.region(request.region),
            tier=request.tier,
            user_id=request.user_id,
            pinned=request.failover is _PINNED,
            front=request.front,
            fence=request.fence,
            start_by=self.moment(request.start_by),
            timeout_s=request.timeout_s,
            size=self._sizes.of(request.model, request.params, request.input),
        )
        payload = Payload(
            input=json_text("input", request.input),
            params=json_text("params", request.params) if request.params else EMPTY_OBJECT,
            context=json_text("context", request.context) if request.context else EMPTY_OBJECT,
            meta=request.meta,
        )
        return ask, payload

    def model(self, name: str) -> str:
        if name not in self._models:
            raise HttpProblemError(
                422, "unknown_model", f"model: {name!r} is not one of {', '.join(self._models)}"
            )
        return name

    def region(self, name: str) -> str:
        region = self._regions.get(name.casefold())
        if region is None:
            known = ", ".join(sorted(set(self._regions.values())))
            raise HttpProblemError(422, "unknown_region", f"region: {name!r} is not one of {known}")
        return region

    def moment(self, unix: float | None) -> float | None:
        """A time of day as a moment of the router's own clock."""
        if unix is None:
            return None
        return self._clock.now() + unix - self._clock.wall().timestamp()
