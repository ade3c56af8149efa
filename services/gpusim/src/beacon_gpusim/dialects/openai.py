"""Chat completions as vLLM, SGLang, Ollama and llama.cpp serve them, plain and streamed."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from beacon_gpusim.core.calls import Call
from beacon_gpusim.core.outputs import Prompt, text_output
from beacon_gpusim.dialects.parsed_call import (
    BadInputError,
    Fields,
    ParsedCall,
    json_object,
    object_field,
    request_id_of,
    text_field,
)
from beacon_gpusim.dialects.structured import structured_text, tool_call

_ERROR_TYPES = {400: "invalid_request_error", 404: "invalid_request_error", 422: "invalid_request_error"}


class SimulatedOpenAi:
    name = "openai"

    def __init__(self, region: str) -> None:
        self._region = region

    def parse(self, body: bytes, request_id: str | None) -> ParsedCall:
        data = json_object(body)
        model = text_field(data, "model")
        usage = object_field(data, "stream_options").get("include_usage") is True
        prompt = Prompt(model, self._region, _conversation(data))
        text = text_output(prompt)
        return ParsedCall(
            request_id=request_id_of({}, request_id),
            prompt=prompt,
            tool=tool_call(data, text),
            text=structured_text(data, text),
            tokens=_token_limit(data),
            stream=data.get("stream") is True,
            usage=usage,
        )

    def response(
        self,
        parsed: ParsedCall,
        call: Call,
        *,
        empty: bool,
        media: Fields | None = None,  # noqa: ARG002 - a chat response has no files
    ) -> bytes:
        words, finish_reason = _words(parsed, empty=empty)
        message: dict[str, Any] = {"role": "assistant", "content": "".join(words)}
        if parsed.tool is not None:
            message = {"role": "assistant", "content": None, "tool_calls": [_tool_call(parsed)]}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
        head = _head(parsed, call, "chat.completion")
        return orjson.dumps({**head, "choices": [choice], "usage": _usage(parsed, words)})

    def error(self, status: int, code: str, message: str) -> bytes:
        kind = _ERROR_TYPES.get(status, "rate_limit_error" if status == 429 else "server_error")
        return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})

    def chunks(self, parsed: ParsedCall, call: Call, *, empty: bool) -> Iterator[bytes]:
        """The server-sent events of a stream: role, one event per word, finish reason, usage, end."""
        words, finish_reason = _words(parsed, empty=empty)
        head = _head(parsed, call, "chat.completion.chunk")
        yield _event(head, {"role": "assistant", "content": ""}, None)
        if parsed.tool is not None:
            yield _event(head, {"tool_calls": [{"index": 0, **_tool_call(parsed)}]}, None)
        for word in words:
            yield _event(head, {"content": word}, None)
        yield _event(head, {}, finish_reason)
        if parsed.usage:
            yield _data({**head, "choices": [], "usage": _usage(parsed, words)})
        yield b"data: [DONE]\n\n"


def model_list(models: Iterable[str], created: int) -> bytes:
    data = [{"id": name, "object": "model", "created": created, "owned_by": "gpusim"} for name in models]
    return orjson.dumps({"object": "list", "data": data})


def _conversation(data: dict[str, Any]) -> str:
    """The last user message; earlier messages are only validated."""
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadInputError("messages: must be a list with at least one message")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadInputError(f"messages[{index}]: must be an object with a role")
    candidates = [message for message in messages if message["role"] == "user"] or messages
    return _content_text(candidates[-1].get("content"))


def _content_text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return " ".join(text for text in parts if isinstance(text, str))
    if content is None:
        return ""
    raise BadInputError("messages: content must be a string or a list of parts")


def _token_limit(data: dict[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        value = data.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BadInputError(f"{name}: must be an integer above 0")
        return value
    return None


def _words(parsed: ParsedCall, *, empty: bool) -> tuple[list[str], str]:
    """The words of the response (one word is one token) and the finish reason."""
    if empty:
        return [], "stop"
    if parsed.tool is not None:
        return [], "tool_calls"
    first, *rest = (parsed.text or "").split(" ")
    words = [first, *(f" {word}" for word in rest)]
    if parsed.tokens is not None and parsed.tokens < len(words):
        return words[: parsed.tokens], "length"
    return words, "stop"


def _tool_call(parsed: ParsedCall) -> dict[str, Any]:
    name, arguments = parsed.tool or ("", "")
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{parsed.request_id}", "type": "function", "function": function}


def _usage(parsed: ParsedCall, words: list[str]) -> dict[str, int]:
    asked = len(parsed.prompt.text.split())
    return {"prompt_tokens": asked, "completion_tokens": len(words), "total_tokens": asked + len(words)}


def _head(parsed: ParsedCall, call: Call, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{parsed.request_id}",
        "object": kind,
        "created": int(call.at),
        "model": call.model,
        "system_fingerprint": f"gpusim-{call.region}",
    }


def _event(head: dict[str, Any], delta: dict[str, Any], finish_reason: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _data({**head, "choices": [choice]})


def _data(content: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(content) + b"\n\n"
