"""Chat completions from the outputs of backends that are not OpenAI-compatible."""

from typing import Any

import orjson

from beacon_contracts.inference import InferenceView

DONE = b"data: [DONE]\n\n"


def completion(request_id: str, view: InferenceView, created: int) -> bytes:
    message = {"role": "assistant", "content": _text(view.output)}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = {} if view.usage is None else {"usage": view.usage}
    return orjson.dumps({**_head(request_id, view, "chat.completion", created), "choices": [choice], **usage})


def chunks(request_id: str, view: InferenceView, created: int, *, include_usage: bool) -> bytes:
    """The completion as a stream of one piece; a chunk with the usage only if the backend counted it."""
    head = _head(request_id, view, "chat.completion.chunk", created)
    deltas: list[tuple[dict[str, str], str | None]] = [
        ({"role": "assistant", "content": _text(view.output)}, None),
        ({}, "stop"),
    ]
    events = []
    for delta, reason in deltas:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        events.append(event({**head, "choices": [choice]}))
    if include_usage and view.usage is not None:
        events.append(event({**head, "choices": [], "usage": view.usage}))
    return b"".join([*events, DONE])


def event(content: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(content) + b"\n\n"


def model_list(models: list[str]) -> bytes:
    return orjson.dumps({"object": "list", "data": [_model(name) for name in models]})


def model_document(name: str) -> bytes:
    return orjson.dumps(_model(name))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "beacon"}


def _head(request_id: str, view: InferenceView, kind: str, created: int) -> dict[str, Any]:
    return {"id": request_id, "object": kind, "created": created, "model": view.model}


def _text(output: object) -> str:
    if output is None:
        return ""
    return output if isinstance(output, str) else orjson.dumps(output).decode()
