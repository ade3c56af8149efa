"""From a request body to an InferenceSpec: validated once, names resolved, payload kept as JSON text."""

from typing import Any

from beacon_config import Derived, LiveConfig
from beacon_contracts.inference import Failover, InferenceRequest
from beacon_http.json_body import json_object
from beacon_http.problems import HttpProblemError
from beacon_lifecycle import Clock
from beacon_router.backends.input_files import named_files
from beacon_router.backends.types import EMPTY_OBJECT
from beacon_router.http.bodies import json_text
from beacon_router.http.work_size import WorkSizes
from beacon_router.scheduling import RequestId
from beacon_router.service.inference import InferenceSpec
from beacon_router.service.region_choice import RegionChoice
from beacon_router.service.streams import StreamSink


class InferenceParser:
    def __init__(self, live: LiveConfig, clock: Clock, nearest: RegionChoice) -> None:
        self._nearest = nearest
        self._live = live
        self._sizes = Derived(live, lambda config: WorkSizes(config.models))
        self._clock = clock

    def parse(self, body: bytes | bytearray, *, streams: bool = False) -> InferenceSpec:
        """`streams`: the response may be streamed from the backend, if the request wants that."""
        return self.parse_document(json_object(body), streams=streams)

    def parse_document(self, document: Any, *, streams: bool = False) -> InferenceSpec:
        request = InferenceRequest.model_validate(document)
        models = self._live.current.models
        if request.model not in models:
            known = ", ".join(models)
            raise HttpProblemError(422, "unknown_model", f"model: {request.model!r} is not one of {known}")
        given = json_text("input", request.input)
        if b'"file_' in given:
            _check_files(request)
        return InferenceSpec(
            id=RequestId(request.request_id),
            model=request.model,
            region=self._region(request),
            rank=self._rank(request),
            input=given,
            params=json_text("params", request.params) if request.params else EMPTY_OBJECT,
            context=json_text("context", request.context) if request.context else EMPTY_OBJECT,
            meta=request.meta,
            user_id=request.user_id,
            weight=request.weight,
            following=request.following,
            pinned=request.failover is Failover.PINNED,
            front=request.front,
            fence=request.fence,
            start_by=None if request.start_by is None else self._monotonic(request.start_by),
            timeout_s=request.timeout_s,
            needs=frozenset(request.needs),
            files=tuple(request.files),
            remote=request.remote,
            sink=StreamSink() if streams and request.stream else None,
            work_size=self._sizes().of(request.model, request.params, request.input),
        )

    def _rank(self, request: InferenceRequest) -> int:
        config = self._live.current
        return config.ranks[config.known_tier(request.tier)]

    def _region(self, request: InferenceRequest) -> str:
        if request.region is None:
            needs = frozenset(request.needs)
            return self._nearest.shortest_wait(request.model, self._rank(request), needs)
        regions = self._live.current.region_names
        region = regions.get(request.region.casefold())
        if region is None:
            known = ", ".join(sorted(set(regions.values())))
            raise HttpProblemError(422, "unknown_region", f"region: {request.region!r} is not one of {known}")
        return region

    def _monotonic(self, unix_s: float) -> float:
        """A wall-clock time on the router's monotonic clock."""
        return self._clock.now() + unix_s - self._clock.wall().timestamp()


def _check_files(request: InferenceRequest) -> None:
    known = {file.id for file in request.files}
    for name in named_files(request.input):
        if name not in known:
            detail = f"input: the file {name[:80]} is not one of files"
            raise HttpProblemError(422, "unknown_file", detail)
