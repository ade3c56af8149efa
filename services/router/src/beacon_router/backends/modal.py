"""Modal web endpoints: one JSON object in, one out, and a redirect each time 150 seconds have passed."""

import orjson

from beacon_router.backends.connection import Reply
from beacon_router.backends.endpoint import Endpoint, Outgoing
from beacon_router.backends.errors import bad_payload, reported_error
from beacon_router.backends.http import json_object
from beacon_router.backends.timings import measured
from beacon_router.backends.types import Answer, BackendCall


class ModalDialect:
    streams = False

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def ask(self, call: BackendCall, *, stream: bool) -> Outgoing:  # noqa: ARG002 - it never streams
        body = {
            "request_id": call.request_id,
            "model": call.model,
            "input": orjson.Fragment(call.input),
            "params": orjson.Fragment(call.params),
        }
        return self._endpoint.post(orjson.dumps(body))

    def read(self, reply: Reply) -> Answer:
        document = json_object(reply)
        if document.get("success") is False:
            raise reported_error(str(document.get("error") or "the backend says that the run failed"))
        if "output" not in document:
            raise bad_payload("the answer has no output")
        return measured(document["output"], document.get("metrics"))

    def following(self, reply: Reply) -> Outgoing | None:
        """The same call goes on behind each redirect; a long cold start meets several."""
        if reply.status != 303:
            return None
        location = reply.headers.get("location", "")
        try:
            return self._endpoint.beside(location).get()
        except ValueError as error:
            raise bad_payload(f"a redirect to {location[:200]!r}: {error}") from error
