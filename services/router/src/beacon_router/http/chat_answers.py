"""Chat completions from the outputs of backends that are not OpenAI-compatible."""

from typing import Any

import orjson

from beacon_router.service.inference import Inference

DONE = b"data: [DONE]\n\n"


def completion(inference: Inference, created: int) -> bytes:
    """The backend's own completion, or one built from its output."""
    if inference.document is not None:
        return inference.document
    message = {"role": "assistant", "content": _text(inference)}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return orjson.dumps({**_head(inference, "chat.completion", created), "choices": [choice], "usage": None})


def chunks(inference: Inference, created: int) -> list[bytes]:
    """The completion as a stream of one chunk."""
    head = _head(inference, "chat.completion.chunk", created)
    deltas: list[tuple[dict[str, str], str | None]] = [
        ({"role": "assistant", "content": _text(inference)}, None),
        ({}, "stop"),
    ]
    events = []
    for delta, reason in deltas:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        events.append(event({**head, "choices": [choice]}))
    return [*events, DONE]


def event(content: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(content) + b"\n\n"


def model_list(models: list[str], created: int) -> bytes:
    return orjson.dumps({"object": "list", "data": [_model(name, created) for name in models]})


def model_document(name: str, created: int) -> bytes:
    return orjson.dumps(_model(name, created))


def _model(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "beacon"}


def _head(inference: Inference, kind: str, created: int) -> dict[str, Any]:
    return {"id": inference.id, "object": kind, "created": created, "model": inference.spec.model}


def _text(inference: Inference) -> str:
    output = orjson.loads(inference.output or b'""')
    if output is None:
        return ""
    return output if isinstance(output, str) else orjson.dumps(output).decode()
