"""The meta/payload envelope of pipeline steps."""

from typing import Any

import orjson

from beacon_router.backends.connection import Reply
from beacon_router.backends.endpoint import Endpoint, Outgoing
from beacon_router.backends.errors import bad_payload
from beacon_router.backends.http import json_object
from beacon_router.backends.timings import measured
from beacon_router.backends.types import EMPTY_OBJECT, Answer, BackendCall


class ExecuteDialect:
    streams = False

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def ask(self, call: BackendCall, *, stream: bool) -> Outgoing:  # noqa: ARG002 - it never streams
        return self._endpoint.post(_envelope(call))

    def read(self, reply: Reply) -> Answer:
        document = json_object(reply)
        if "data" not in document:
            raise bad_payload("the answer has no data")
        return measured(document["data"], document.get("metrics"))

    def following(self, reply: Reply) -> Outgoing | None:  # noqa: ARG002 - it never goes on elsewhere
        return None


def _envelope(call: BackendCall) -> bytes:
    meta = {
        "job_id": call.meta.job_id if call.meta else call.request_id,
        "step_index": call.meta.step_index if call.meta else 0,
        "service_name": call.model,
        "attempt": call.meta.attempt if call.meta else call.attempt,
        "request_id": call.request_id,
    }
    return orjson.dumps(
        {"meta": meta, "payload": {"params": _params(call), "context": orjson.Fragment(call.context)}}
    )


def _params(call: BackendCall) -> Any:
    """The envelope has one place for the input and the options beside it; the input wins."""
    if call.params == EMPTY_OBJECT:
        return orjson.Fragment(call.input)
    return orjson.loads(call.params) | orjson.loads(call.input)
