"""A request for the router in its encoded form: the only copy of its content while it waits."""

from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from beacon_contracts.inference import InferenceRequest

_JSON = TypeAdapter(InferenceRequest)


@dataclass(frozen=True, slots=True)
class EncodedRequest:
    """`head` is the request without its content; `body` is all of it, and begins with the request id."""

    head: InferenceRequest
    body: bytes

    def with_id(self, request_id: str) -> "EncodedRequest":
        head = self.head.model_copy(update={"request_id": request_id})
        rest = memoryview(self.body)[len(_start(self.head.request_id)) :]
        return replace(self, head=head, body=b"".join((_start(request_id), rest)))


def encode_request(request: InferenceRequest) -> EncodedRequest:
    """Its request id consists of letters, digits, dots and hyphens."""
    body = _JSON.dump_json(request, exclude_defaults=True)
    return EncodedRequest(request.model_copy(update={"input": {}, "params": {}}), body)


def _start(request_id: str) -> bytes:
    return b'{"request_id":"%s"' % request_id.encode()
