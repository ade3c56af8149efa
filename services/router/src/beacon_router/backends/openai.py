"""Chat completions: vLLM, SGLang, Ollama, llama.cpp and whatever else speaks them."""

from typing import Any

import orjson

from beacon_router.backends.connection import Reply
from beacon_router.backends.endpoint import Endpoint, Outgoing, header
from beacon_router.backends.errors import bad_payload, unusable_input
from beacon_router.backends.http import json_object
from beacon_router.backends.types import Answer, BackendCall


class OpenAiDialect:
    """Streams the backend's own server-sent events, byte for byte."""

    streams = True

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def ask(self, call: BackendCall, *, stream: bool) -> Outgoing:
        return self._endpoint.post(_body(call, stream=stream), header("x-request-id", call.request_id))

    def read(self, reply: Reply) -> Answer:
        document = json_object(reply)
        usage = document.get("usage")
        return Answer(
            output=orjson.dumps(_text(document)),
            metrics={"usage": usage} if isinstance(usage, dict) else {},
            document=reply.body,
        )

    def following(self, reply: Reply) -> Outgoing | None:  # noqa: ARG002 - it never goes on elsewhere
        return None


def _body(call: BackendCall, *, stream: bool) -> bytes:
    """The caller's parameters pass through; model, messages and streaming are not theirs to set here."""
    params: dict[str, Any] = orjson.loads(call.params)
    if not stream:
        params.pop("stream_options", None)
    return orjson.dumps(params | {"model": call.model, "messages": _messages(call.input), "stream": stream})


def _messages(given: bytes) -> list[Any]:
    content: dict[str, Any] = orjson.loads(given)
    messages = content.get("messages")
    if isinstance(messages, list) and messages:
        return messages
    prompt = content.get("prompt")
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    raise unusable_input("this model talks: its input needs a prompt or a list of messages")


def _text(document: dict[str, Any]) -> str:
    """The answer's text; an empty one is an answer too."""
    try:
        content = document["choices"][0]["message"].get("content")
    except (LookupError, TypeError, AttributeError):
        raise bad_payload("the answer has no choices[0].message") from None
    if content is None:
        return ""
    if not isinstance(content, str):
        raise bad_payload("the answer's content is not a text")
    return content
