"""Chat completions as vLLM, SGLang, Ollama and llama.cpp serve them, plain and streamed."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from beacon_gpusim.core.answers import Prompt, text_answer
from beacon_gpusim.core.calls import Call
from beacon_gpusim.dialects.order import (
    BadInputError,
    Order,
    json_object,
    object_field,
    request_id_of,
    text_field,
)

_ERROR_TYPES = {400: "invalid_request_error", 404: "invalid_request_error", 422: "invalid_request_error"}


class OpenAiDialect:
    name = "openai"

    def __init__(self, region: str) -> None:
        self._region = region

    def parse(self, body: bytes, request_id: str | None) -> Order:
        data = json_object(body)
        model = text_field(data, "model")
        usage = object_field(data, "stream_options").get("include_usage") is True
        return Order(
            request_id=request_id_of({}, request_id),
            prompt=Prompt(model, self._region, _conversation(data)),
            tokens=_token_limit(data),
            stream=data.get("stream") is True,
            usage=usage,
        )

    def answer(self, order: Order, call: Call, *, empty: bool) -> bytes:
        words, finish_reason = _words(order, empty=empty)
        message = {"role": "assistant", "content": "".join(words)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
        head = _head(order, call, "chat.completion")
        return orjson.dumps({**head, "choices": [choice], "usage": _usage(order, words)})

    def failure(self, status: int, code: str, message: str) -> bytes:
        kind = _ERROR_TYPES.get(status, "rate_limit_error" if status == 429 else "server_error")
        return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})

    def chunks(self, order: Order, call: Call, *, empty: bool) -> Iterator[bytes]:
        """The server-sent events of a streamed answer: role, one word each, the reason, usage, the end."""
        words, finish_reason = _words(order, empty=empty)
        head = _head(order, call, "chat.completion.chunk")
        yield _event(head, {"role": "assistant", "content": ""}, None)
        for word in words:
            yield _event(head, {"content": word}, None)
        yield _event(head, {}, finish_reason)
        if order.usage:
            yield _data({**head, "choices": [], "usage": _usage(order, words)})
        yield b"data: [DONE]\n\n"


def model_list(models: Iterable[str], created: int) -> bytes:
    data = [{"id": name, "object": "model", "created": created, "owned_by": "gpusim"} for name in models]
    return orjson.dumps({"object": "list", "data": data})


def _conversation(data: dict[str, Any]) -> str:
    """The last thing the user said; the messages before it only have to be well formed."""
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadInputError("messages: a list with at least one message is needed")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadInputError(f"messages[{index}]: an object with a role is needed")
    spoken = [message for message in messages if message["role"] == "user"] or messages
    return _content_text(spoken[-1].get("content"))


def _content_text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return " ".join(text for text in parts if isinstance(text, str))
    if content is None:
        return ""
    raise BadInputError("messages: content must be a text or a list of parts")


def _token_limit(data: dict[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        value = data.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BadInputError(f"{name}: a whole number above 0 is needed")
        return value
    return None


def _words(order: Order, *, empty: bool) -> tuple[list[str], str]:
    """The answer word by word (a word is a token here), and why it ends."""
    if empty:
        return [], "stop"
    first, *rest = text_answer(order.prompt).split(" ")
    words = [first, *(f" {word}" for word in rest)]
    if order.tokens is not None and order.tokens < len(words):
        return words[: order.tokens], "length"
    return words, "stop"


def _usage(order: Order, words: list[str]) -> dict[str, int]:
    asked = len(order.prompt.text.split())
    return {"prompt_tokens": asked, "completion_tokens": len(words), "total_tokens": asked + len(words)}


def _head(order: Order, call: Call, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{order.request_id}",
        "object": kind,
        "created": int(call.at),
        "model": call.model,
        "system_fingerprint": f"gpusim-{call.region}",
    }


def _event(head: dict[str, Any], delta: dict[str, str], finish_reason: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _data({**head, "choices": [choice]})


def _data(content: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(content) + b"\n\n"
