"""Modal web endpoints: a JSON object in, a JSON object out.

Either the answer has the result, with a 303 every 150 s while the run continues; or the endpoint spawns the
run and answers its id, by which the result is polled.
"""

from collections.abc import Mapping

import orjson
from yarl import URL

from beacon_config.mappings import PollingMapping, ProgressMapping
from beacon_router.backends.dialects.polling import PollingApi
from beacon_router.backends.errors import bad_payload, reported_error
from beacon_router.backends.http_backend import json_object, timed_result
from beacon_router.backends.input_files import plain_form
from beacon_router.backends.progress import ProgressExpressions
from beacon_router.backends.types import BackendCall, BackendResult, WireRequest, WireResponse
from beacon_router.backends.wire import BackendWire

_SPAWNED = PollingMapping(
    request={name: name for name in ("request_id", "model", "input", "params")},
    id="call_id",
    status_path="/{id}",
    cancel_path="/{id}",
    cancel_method="DELETE",
    state="status || ((contains(keys(@), 'output') || contains(keys(@), 'success')) && 'completed')",
)


class ModalDialect:
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
        attempt: int,  # noqa: ARG002
        stream: bool,  # noqa: ARG002
        count_tokens: bool = False,  # noqa: ARG002
    ) -> WireRequest:
        body = {
            "request_id": call.id,
            "model": call.model,
            "input": orjson.Fragment(call.input),
            "params": orjson.Fragment(call.params),
        }
        return WireRequest("POST", self._url, self._headers, orjson.dumps(body))

    def result(self, response: WireResponse) -> BackendResult:
        document = json_object(response)
        if document.get("success") is False:
            raise reported_error(str(document.get("error") or "the backend reports that the run failed"))
        if "output" not in document:
            raise bad_payload("the response has no output")
        return timed_result(document["output"], document.get("metrics"))


def spawned_modal(url: URL, headers: Mapping[str, str], wire: BackendWire) -> PollingApi:
    """An endpoint that spawns its runs."""
    return PollingApi(url, headers, _SPAWNED, wire, read_result=ModalDialect(url, headers).result)
