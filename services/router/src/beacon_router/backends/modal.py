"""Modal web endpoints: one JSON object in, one out, and a redirect each time 150 seconds have passed."""

import orjson
from yarl import URL

from beacon_router.backends.calls import Answer, BackendCall
from beacon_router.backends.measures import metrics_of, seconds
from beacon_router.backends.sender import Headers, HttpSender, Reply, json_object
from beacon_router.backends.verdicts import bad_payload, reported_error

# Modal answers each look after 150 s at the latest; the run limit ends a real run long before this.
_MAX_REDIRECTS = 1_000


class ModalBackend:
    def __init__(self, sender: HttpSender, url: URL, headers: Headers) -> None:
        self._sender = sender
        self._url = url
        self._headers = headers

    async def run(self, call: BackendCall) -> Answer:
        body = orjson.dumps(
            {
                "request_id": call.request_id,
                "model": call.model,
                "input": orjson.Fragment(call.input),
                "params": orjson.Fragment(call.params),
            }
        )
        reply = await self._follow(await self._sender.post(self._url, body, self._headers))
        if reply.status != 200:
            raise self._sender.refused(reply)
        return _answer(json_object(reply))

    async def _follow(self, reply: Reply) -> Reply:
        """The same call goes on behind each redirect; a long cold start meets several."""
        for _ in range(_MAX_REDIRECTS):
            if reply.status != 303:
                return reply
            reply = await self._sender.get(self._next(reply), self._headers)
        raise bad_payload(f"the backend redirected {_MAX_REDIRECTS} times")

    def _next(self, reply: Reply) -> URL:
        location = reply.headers.get("location", "")
        try:
            target = self._url.join(URL(location))
        except ValueError as error:
            raise bad_payload(f"a redirect to {location[:200]!r}: {error}") from error
        # The key in the headers is for this backend alone.
        if not location or target.origin() != self._url.origin():
            raise bad_payload(f"a redirect to another place: {location[:200]!r}")
        return target


def _answer(document: dict[str, object]) -> Answer:
    if document.get("success") is False:
        raise reported_error(str(document.get("error") or "the backend says that the run failed"))
    if "output" not in document:
        raise bad_payload("the answer has no output")
    metrics = metrics_of(document.get("metrics"))
    return Answer(
        output=orjson.dumps(document["output"]),
        load_s=seconds(metrics.get("load_s")),
        run_s=seconds(metrics.get("run_s")),
        metrics=metrics,
    )
