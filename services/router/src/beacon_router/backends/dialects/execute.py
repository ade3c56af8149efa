"""Pipeline steps: an envelope of meta and payload."""

from collections.abc import Mapping
from typing import Any

import orjson
from yarl import URL

from beacon_config.mappings import ProgressMapping
from beacon_router.backends.errors import bad_payload
from beacon_router.backends.http_backend import json_object, timed_result
from beacon_router.backends.input_files import plain_form
from beacon_router.backends.progress import ProgressExpressions
from beacon_router.backends.types import EMPTY_OBJECT, BackendCall, BackendResult, WireRequest, WireResponse


class ExecuteDialect:
    streams = False
    progress = ProgressExpressions(ProgressMapping())
    file_value = staticmethod(plain_form)

    def __init__(self, url: URL, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = {**headers, "content-type": "application/json"}

    def request(
        self,
        call: BackendCall,
        *,
        attempt: int,
        stream: bool,  # noqa: ARG002
        count_tokens: bool = False,  # noqa: ARG002
    ) -> WireRequest:
        meta = {
            "job_id": call.meta.job_id if call.meta else call.id,
            "step_index": call.meta.step_index if call.meta else 0,
            "service_name": call.model,
            "attempt": call.meta.attempt if call.meta else attempt,
            "request_id": call.id,
        }
        payload = {"params": _params(call), "context": orjson.Fragment(call.context)}
        body = orjson.dumps({"meta": meta, "payload": payload})
        return WireRequest("POST", self._url, self._headers, body)

    def result(self, response: WireResponse) -> BackendResult:
        document = json_object(response)
        if "data" not in document:
            raise bad_payload("the response has no data")
        return timed_result(document["data"], document.get("metrics"))


def _params(call: BackendCall) -> Any:
    """The envelope has one field for input and params; on equal names the input wins."""
    if call.params == EMPTY_OBJECT:
        return orjson.Fragment(call.input)
    return orjson.loads(call.params) | orjson.loads(call.input)
