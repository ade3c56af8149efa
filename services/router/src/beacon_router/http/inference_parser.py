"""From a JSON document to an InferenceSpec: validated once, names resolved, payload kept as JSON text."""

from collections.abc import Mapping
from typing import Any

from beacon_config import LiveConfig
from beacon_contracts.inference import Failover, InferenceRequest
from beacon_http.problems import HttpProblemError
from beacon_lifecycle import Clock
from beacon_router.backends.input_files import named_files
from beacon_router.backends.types import EMPTY_OBJECT
from beacon_router.http.bodies import json_text
from beacon_router.http.work_size import work_size
from beacon_router.scheduling import RequestId
from beacon_router.service.inference import InferenceSpec
from beacon_router.service.region_choice import RegionChoice
from beacon_router.service.streams import StreamSink


class InferenceParser:
    def __init__(self, live: LiveConfig, clock: Clock, nearest: RegionChoice) -> None:
        self._nearest = nearest
        self._live = live
        self._clock = clock

    def parse(self, document: Any, *, streams: bool = False) -> InferenceSpec:
        """`streams`: the response may be streamed from the backend, if the request wants that."""
        request, config = InferenceRequest.model_validate(document), self._live.current
        model = config.models.get(request.model)
        if model is None:
            known = ", ".join(config.models)
            raise HttpProblemError(422, "unknown_model", f"model: {request.model!r} is not one of {known}")
        rank, needs = config.rank_of(request.tier), frozenset(request.needs)
        if request.region is None:
            region = self._nearest.shortest_wait(request.model, rank, needs)
        else:
            region = _known_region(config.region_names, request.region)
        given = json_text("input", request.input)
        if b'"file_' in given:
            _check_files(request)
        return InferenceSpec(
            id=RequestId(request.request_id),
            model=request.model,
            region=region,
            rank=rank,
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
            needs=needs,
            files=tuple(request.files),
            remote=request.remote,
            sink=StreamSink() if streams and request.stream else None,
            work_size=work_size(model.size, request.params, request.input),
        )

    def _monotonic(self, unix_s: float) -> float:
        """A wall-clock time on the router's monotonic clock."""
        return self._clock.now() + unix_s - self._clock.wall().timestamp()


def _known_region(names: Mapping[str, str], given: str) -> str:
    region = names.get(given.casefold())
    if region is None:
        known = ", ".join(sorted(set(names.values())))
        raise HttpProblemError(422, "unknown_region", f"region: {given!r} is not one of {known}")
    return region


def _check_files(request: InferenceRequest) -> None:
    known = {file.id for file in request.files}
    for name in named_files(request.input):
        if name not in known:
            detail = f"input: the file {name[:80]} is not one of files"
            raise HttpProblemError(422, "unknown_file", detail)
