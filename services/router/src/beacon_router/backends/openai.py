"""Chat completions: vLLM, SGLang, Ollama, llama.cpp and whatever else speaks them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from yarl import URL

from beacon_router.backends.calls import Answer, BackendCall
from beacon_router.backends.sender import Headers, HttpSender, json_object
from beacon_router.backends.verdicts import bad_payload, unusable_input


class OpenAiBackend:
    def __init__(self, sender: HttpSender, url: URL, headers: Headers) -> None:
        self._sender = sender
        self._url = url / "chat/completions"
        self._headers = headers

    async def run(self, call: BackendCall) -> Answer:
        reply = await self._sender.post(self._url, _body(call, stream=False), self._named(call))
        if reply.status != 200:
            raise self._sender.refused(reply)
        document = json_object(reply)
        usage = document.get("usage")
        return Answer(
            output=orjson.dumps(_text(document)),
            metrics={"usage": usage} if isinstance(usage, dict) else {},
            document=reply.body,
        )

    @asynccontextmanager
    async def stream(self, call: BackendCall) -> AsyncIterator[AsyncIterator[bytes]]:
        """The backend's own server-sent events, byte for byte."""
        async with self._sender.stream(self._url, _body(call, stream=True), self._named(call)) as pieces:
            yield pieces

    def _named(self, call: BackendCall) -> Headers:
        return {**self._headers, "x-request-id": call.request_id}


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
