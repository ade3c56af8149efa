"""Chat requests in OpenAI's format: what is valid, and what they need of a backend. Pure."""

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from beacon_contracts.capabilities import Capability
from beacon_runner.domain.inputs.json_limits import json_problems

MODEL_NOT_FOUND = "model_not_found"
_NOT_PARAMS: Final = frozenset({"model", "messages", "stream"})
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "stream": (bool,),
    "stream_options": (dict,),
    "n": (int,),
    "max_tokens": (int,),
    "max_completion_tokens": (int,),
    "temperature": (int, float),
    "top_p": (int, float),
    "frequency_penalty": (int, float),
    "presence_penalty": (int, float),
    "seed": (int,),
    "stop": (str, list),
    "logprobs": (bool,),
    "top_logprobs": (int,),
    "logit_bias": (dict,),
    "tools": (list,),
    "tool_choice": (str, dict),
    "parallel_tool_calls": (bool,),
    "functions": (list,),
    "function_call": (str, dict),
    "response_format": (dict,),
    "modalities": (list,),
    "user": (str,),
}
_ITEM_TYPES: Final[Mapping[str, type]] = {"tools": dict, "functions": dict, "modalities": str, "stop": str}
_INNER_TYPES: Final[tuple[tuple[str, str, type], ...]] = (
    ("stream_options", "include_usage", bool),
    ("response_format", "type", str),
)
_NAMES: Final = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}
_MESSAGES: Final = "messages"
_PARTS: Final = {"image_url": Capability.IMAGES, "input_audio": Capability.AUDIO}


class InvalidChatError(Exception):
    """`param` names the field."""

    def __init__(self, code: str, message: str, param: str | None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """`needs`: what a backend must be capable of, with the parameter that asks for it."""

    model: str
    messages: list[dict[str, Any]]
    params: Mapping[str, Any]
    stream: bool
    include_usage: bool
    needs: Mapping[Capability, str]

    @property
    def input(self) -> dict[str, Any]:
        """With the last user message as a prompt, for backends that take one."""
        return {"messages": self.messages, "prompt": _last_user_text(self.messages)}


def parse_chat(data: Mapping[str, Any]) -> ChatRequest:
    """Raises InvalidChatError."""
    model = data.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidChatError("missing_model", "you must provide a model parameter", "model")
    _check_types(data)
    messages = _messages(data.get("messages"))
    for problem in json_problems(data, "body"):
        param = problem.field.removeprefix("body.")
        raise InvalidChatError("invalid_value", f"{param} {problem.message}", param)
    options = data.get("stream_options") or {}
    return ChatRequest(
        model=model,
        messages=messages,
        params={name: value for name, value in data.items() if name not in _NOT_PARAMS},
        stream=data.get("stream") is True,
        include_usage=options.get("include_usage") is True,
        needs=dict(_needs(data)),
    )


def execution_needs(
    model: str, given: Mapping[str, Any], params: Mapping[str, Any], chat_models: Container[str]
) -> dict[Capability, str]:
    """What an execution needs of a backend, with the field of the job that asks for it; only chat models do.

    Backends read the messages of the input; of a parameter in both, that of `params`.
    """
    if model not in chat_models or (not params and given.keys() == {"prompt"}):
        return {}
    own = {name: value for name, value in params.items() if name != _MESSAGES}
    return {
        capability: f"params.{name}" if name in own else f"input.{name}"
        for capability, name in _needs({**given, **own})
    }


def unsupported(needs: Mapping[Capability, str], able: Collection[frozenset[Capability]]) -> str | None:
    """The parameter for which there is no backend; None if one backend is capable of everything.

    `able`: the capabilities of each backend.
    """
    if not needs or any(needs.keys() <= each for each in able):
        return None
    missing = [param for need, param in needs.items() if not any(need in each for each in able)]
    return next(iter(missing or needs.values()))


def _check_types(data: Mapping[str, Any]) -> None:
    for name, kinds in _TYPES.items():
        if (value := data.get(name)) is not None:
            _check_type(value, kinds, name)
    for name, kind in _ITEM_TYPES.items():
        items = data.get(name)
        for index, item in enumerate(items if isinstance(items, list) else ()):
            _check_type(item, (kind,), f"{name}[{index}]")
    for name, inner, kind in _INNER_TYPES:
        if (value := (data.get(name) or {}).get(inner)) is not None:
            _check_type(value, (kind,), f"{name}.{inner}")
    if (n := data.get("n")) is not None and n < 1:
        raise InvalidChatError("invalid_value", "n must be at least 1", "n")


def _check_type(value: object, kinds: tuple[type, ...], name: str) -> None:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(_NAMES[kind] for kind in kinds)
        raise InvalidChatError("invalid_type", f"{name} must be {wanted}", name)


def _messages(messages: object) -> list[dict[str, Any]]:
    if not isinstance(messages, list) or not messages:
        raise _invalid("messages must be a list with at least one message", "messages")
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise _invalid(f"{where} must be an object with a role and a content", where)
        content = message.get("content")
        if content is not None and not isinstance(content, str | list):
            raise _invalid(f"{where}.content must be a string or a list of parts", f"{where}.content")
        for number, part in enumerate(content if isinstance(content, list) else ()):
            _check_part(part, f"{where}.content[{number}]")
        if not isinstance(message.get("tool_calls") or [], list):
            raise _invalid(f"{where}.tool_calls must be a list", f"{where}.tool_calls")
    return messages


def _check_part(part: object, where: str) -> None:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise _invalid(f"{where} must be an object with a type", where)
    if part["type"] == "text" and not isinstance(part.get("text"), str):
        raise _invalid(f"{where}.text must be a string", f"{where}.text")
    if part["type"] == "image_url":
        image = part.get("image_url")
        if not isinstance(image, dict) or not isinstance(image.get("url"), str) or not image["url"]:
            raise _invalid(f"{where}.image_url must be an object with a url", f"{where}.image_url")


def _invalid(message: str, param: str) -> InvalidChatError:
    return InvalidChatError("invalid_messages", message, param)


def _needs(body: Mapping[str, Any]) -> Iterator[tuple[Capability, str]]:
    """Values of a wrong type need nothing: the body of a job is checked by its backend."""
    n, modalities, messages = (body.get(name) for name in ("n", "modalities", _MESSAGES))
    asked: tuple[tuple[Capability, str, Any], ...] = (
        (Capability.TOOLS, "functions", body.get("functions")),
        (Capability.TOOLS, "tools", body.get("tools")),
        (Capability.JSON_SCHEMA, "response_format", _structured(body.get("response_format"))),
        (Capability.LOGPROBS, "top_logprobs", body.get("top_logprobs")),
        (Capability.LOGPROBS, "logprobs", body.get("logprobs")),
        (Capability.N, "n", isinstance(n, int) and n > 1),
        (Capability.AUDIO, "modalities", isinstance(modalities, list) and "audio" in modalities),
    )
    yield from ((capability, name) for capability, name, wanted in asked if wanted)
    for message in messages if isinstance(messages, list) else ():
        for part in _parts(message):
            yield from ((need, _MESSAGES) for kind, need in _PARTS.items() if part.get("type") == kind)


def _structured(response_format: object) -> bool:
    return isinstance(response_format, Mapping) and response_format.get("type", "text") != "text"


def _parts(message: object) -> list[dict[str, Any]]:
    content = message.get("content") if isinstance(message, Mapping) else None
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _last_user_text(messages: list[dict[str, Any]]) -> str:
    candidates = [message for message in messages if message["role"] == "user"] or messages
    content = candidates[-1].get("content")
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in _parts(candidates[-1]) if part["type"] == "text")
