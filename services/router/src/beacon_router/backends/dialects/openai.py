"""Chat completions: vLLM, SGLang, Ollama, llama.cpp and other OpenAI-compatible servers."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import orjson
from yarl import URL

from beacon_contracts.files import InputFile
from beacon_router.backends.errors import bad_payload, unusable_input
from beacon_router.backends.http_backend import json_object, json_text
from beacon_router.backends.input_files import FileForms
from beacon_router.backends.stream_usage import token_usage
from beacon_router.backends.types import BackendCall, BackendResult, WireRequest, WireResponse

# Read from the input too: there a step of a pipeline has what its job or an earlier step chose.
_INPUT_PARAMS = (
    "tools",
    "tool_choice",
    "functions",
    "response_format",
    "logprobs",
    "top_logprobs",
    "n",
    "modalities",
)


_FIELDS = {"image": "image_url", "video": "video_url", "audio": "input_audio"}
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def _content_form(key: str | None, file: InputFile, forms: FileForms) -> Any:
    """A file as the value of a field of a message, or as a part of its content."""
    kind = file.content_type.partition("/")[0]
    match key:
        case "image_url" | "video_url" | "audio_url":
            return {"url": forms.data_url}
        case "input_audio":
            form = _AUDIO_FORMATS.get(file.content_type, file.content_type.rpartition("/")[2])
            return {"data": forms.data, "format": form}
        case "content" if kind in _FIELDS:
            return {"type": _FIELDS[kind], _FIELDS[kind]: _content_form(_FIELDS[kind], file, forms)}
        case "content":
            return {"type": "file", "file": {"filename": file.name, "file_data": forms.data_url}}
    return forms.data if key == "data" else forms.data_url


class OpenAiDialect:
    """Streams the backend's server-sent events."""

    streams = True
    progress = None
    file_value = staticmethod(_content_form)

    def __init__(self, url: URL, headers: Mapping[str, str]) -> None:
        self._url = url / "chat/completions"
        self._headers = {**headers, "content-type": "application/json"}

    def request(
        self,
        call: BackendCall,
        *,
        attempt: int,  # noqa: ARG002
        stream: bool,
        count_tokens: bool = False,
    ) -> WireRequest:
        """Model, messages and stream are set here; other parameters are passed through."""
        given: dict[str, Any] = orjson.loads(call.input)
        params: dict[str, Any] = {name: given[name] for name in _INPUT_PARAMS if name in given}
        params |= orjson.loads(call.params)
        if not stream:
            params.pop("stream_options", None)
        elif count_tokens:
            options = params.get("stream_options")
            given_options = options if isinstance(options, dict) else {}
            params["stream_options"] = given_options | {"include_usage": True}
        body = params | {"model": call.model, "messages": _messages(given), "stream": stream}
        headers = {**self._headers, "x-request-id": _header_value(call.id)}
        return WireRequest("POST", self._url, headers, orjson.dumps(body))

    def result(self, response: WireResponse) -> BackendResult:
        document = json_object(response)
        body = response.body
        if document.get("usage", body) is None:  # clients that read it expect an object
            del document["usage"]
            body = json_text(document)
        return BackendResult(
            json_text(_answer(document)), usage=token_usage(document.get("usage")), response=body
        )


def _messages(given: Mapping[str, Any]) -> list[Any]:
    messages = given.get("messages")
    if isinstance(messages, list) and messages:
        return messages
    prompt = given.get("prompt")
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    raise unusable_input("the input of a chat model needs a prompt or a list of messages")


def _answer(document: dict[str, Any]) -> Any:
    """The text of the first choice, which may be empty; with images or audio, an object of all of them."""
    try:
        message = document["choices"][0]["message"]
        content = _content(message.get("content"))
    except (LookupError, TypeError, AttributeError):
        raise bad_payload("the response has no choices[0].message") from None
    media = {name: message[name] for name in ("images", "audio") if message.get(name)}
    return {"content": content, **media} if media or isinstance(content, list) else content or ""


def _content(content: Any) -> str | list[Any] | None:
    """Some servers answer a list of parts: its texts as one, or the list if it has other parts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content]
        return "".join(texts) if all(isinstance(text, str) for text in texts) else content
    if content is not None and not isinstance(content, str):
        raise bad_payload("the content of the response is neither a text nor a list of parts")
    return content


def _header_value(value: str) -> str:
    """Percent-encoded if a header cannot carry it."""
    return value if value.isascii() and value.isprintable() else quote(value)
