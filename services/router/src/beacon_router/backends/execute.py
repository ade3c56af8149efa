"""The meta/payload envelope of pipeline steps."""

from typing import Any

import orjson
from yarl import URL

from beacon_router.backends.calls import EMPTY_OBJECT, Answer, BackendCall
from beacon_router.backends.measures import metrics_of, seconds
from beacon_router.backends.sender import Headers, HttpSender, json_object
from beacon_router.backends.verdicts import bad_payload


class ExecuteBackend:
    def __init__(self, sender: HttpSender, url: URL, headers: Headers) -> None:
        self._sender = sender
        self._url = url
        self._headers = headers

    async def run(self, call: BackendCall) -> Answer:
        reply = await self._sender.post(self._url, _envelope(call), self._headers)
        if reply.status != 200:
            raise self._sender.refused(reply)
        document = json_object(reply)
        if "data" not in document:
            raise bad_payload("the answer has no data")
        metrics = metrics_of(document.get("metrics"))
        return Answer(
            output=orjson.dumps(document["data"]),
            load_s=seconds(metrics.get("load_s")),
            run_s=seconds(metrics.get("run_s")),
            metrics=metrics,
        )


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
