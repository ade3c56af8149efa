"""Modal web endpoints: a JSON object in, a JSON object out; a 303 every 150 s while the run continues."""

from collections.abc import Mapping

import orjson
from yarl import URL

from beacon_router.backends.errors import bad_payload, reported_error
from beacon_router.backends.http_backend import json_object, timed_result
from beacon_router.backends.input_files import plain_form
from beacon_router.backends.types import BackendCall, BackendResult, WireRequest, WireResponse


class ModalDialect:
    streams = False
    file_value = staticmethod(plain_form)

    def __init__(self, url: URL, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = {**headers, "content-type": "application/json"}

    def request(self, call: BackendCall, *, attempt: int, stream: bool) -> WireRequest:  # noqa: ARG002
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
