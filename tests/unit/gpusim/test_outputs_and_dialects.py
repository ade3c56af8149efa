"""Requests of each dialect, outputs of the models, and refusals."""

import json
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from beacon_gpusim.core.calls import Call
from beacon_gpusim.core.outputs import Prompt, step_data, text_output
from beacon_gpusim.dialects import (
    BadInputError,
    SimulatedDialect,
    SimulatedExecute,
    SimulatedModal,
    SimulatedOpenAi,
)


def call_of(model: str) -> Call:
    return Call(1, "r-1", "modal", model, "EU", 100.0, 1, load_s=1.5, run_s=0.25)


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_an_output_names_model_region_and_question_and_is_repeatable() -> None:
    prompt = Prompt("llama", "EU", "Is tea better?")
    assert text_output(prompt) == text_output(prompt)
    for part in ("llama", "EU", "Is tea better?"):
        assert part in text_output(prompt)


def test_answers_differ_by_model_region_and_prompt() -> None:
    prompts = [Prompt(m, r, p) for m in ("a", "b") for r in ("US", "EU") for p in ("x?", "y?")]
    assert len({text_output(prompt) for prompt in prompts}) == 8


@pytest.mark.parametrize(
    ("service", "name"),
    [
        ("prompt_enhancer", "enhanced_prompt"),
        ("fast_chat_llm", "generated_text"),
        ("anything", "output"),
    ],
)
def test_each_step_returns_its_result_under_its_name(service: str, name: str) -> None:
    data = step_data(service, Prompt(service, "US", "A city"))
    assert list(data) == [name]
    assert data[name]


def test_modal_in_and_out() -> None:
    dialect = SimulatedModal("EU")
    parsed = dialect.parse(
        body(request_id="r-9", model="llama", input={"prompt": "Why?"}, params={"temperature": 0}), None
    )
    answer = json.loads(dialect.response(parsed, call_of("llama"), empty=False))
    assert parsed.request_id == "r-9"
    assert answer == {
        "success": True,
        "request_id": "r-9",
        "model": "llama",
        "region": "EU",
        "output": text_output(Prompt("llama", "EU", "Why?")),
        "metrics": {"load_s": 1.5, "run_s": 0.25},
    }
    assert json.loads(dialect.response(parsed, call_of("llama"), empty=True))["output"] == ""


def test_execute_in_and_out() -> None:
    dialect = SimulatedExecute("EU")
    meta = {"job_id": "j", "step_index": 2, "service_name": "fast_chat_llm", "request_id": "r-7"}
    parsed = dialect.parse(body(meta=meta, payload={"params": {"prompt": "A city"}, "context": {}}), None)
    answer = json.loads(dialect.response(parsed, call_of("fast_chat_llm"), empty=False))
    assert parsed.request_id == "r-7"
    assert parsed.prompt.model == "fast_chat_llm"
    assert "A city" in answer["data"]["generated_text"]
    assert answer["metrics"]["model_version"]
    assert answer["metrics"]["processing_time_ms"] == 1750
    empty = json.loads(dialect.response(parsed, call_of("fast_chat_llm"), empty=True))
    assert empty["data"] == {"generated_text": ""}


def test_files_in_an_input_are_recognised() -> None:
    content = bytes(range(256)) * 4
    text = b64encode(content).decode()
    found = {"bytes": 1_024, "sha256": sha256(content).hexdigest()}
    for value in (text, f"data:image/png;base64,{text}"):
        parsed = SimulatedModal("EU").parse(body(model="m", input={"image": value, "note": "x" * 999}), None)
        assert parsed.prompt.inputs == {"image": found}
        assert text not in parsed.prompt.text


def test_openai_takes_the_last_user_message_and_the_header_as_request_id() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "First?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": [{"type": "text", "text": "Second?"}]},
    ]
    parsed = SimulatedOpenAi("EU").parse(body(model="llama", messages=messages), "r-5")
    assert parsed.request_id == "r-5"
    assert parsed.prompt.text == "Second?"


def test_openai_stops_at_max_tokens_with_the_finish_reason() -> None:
    dialect = SimulatedOpenAi("EU")
    messages = [{"role": "user", "content": "Why?"}]
    parsed = dialect.parse(body(model="llama", messages=messages, max_tokens=2), None)
    choice = json.loads(dialect.response(parsed, call_of("llama"), empty=False))["choices"][0]
    assert choice["message"]["content"] == "llama in"
    assert choice["finish_reason"] == "length"


def test_the_streamed_words_are_the_plain_answer() -> None:
    dialect = SimulatedOpenAi("EU")
    parsed = dialect.parse(body(model="llama", messages=[{"role": "user", "content": "Why?"}]), "r")
    plain = json.loads(dialect.response(parsed, call_of("llama"), empty=False))["choices"][0]["message"][
        "content"
    ]
    *events, end = dialect.chunks(parsed, call_of("llama"), empty=False)
    deltas = [json.loads(event.removeprefix(b"data: "))["choices"][0]["delta"] for event in events]
    assert "".join(delta.get("content", "") for delta in deltas) == plain
    assert end == b"data: [DONE]\n\n"


BAD: list[tuple[Callable[[str], SimulatedDialect], bytes, int, str]] = [
    (SimulatedModal, b"{", 400, "not JSON"),
    (SimulatedModal, b"[]", 400, "JSON object"),
    (SimulatedModal, body(input={}), 422, "model"),
    (SimulatedModal, body(model=7), 422, "model"),
    (SimulatedModal, body(model=""), 422, "model"),
    (SimulatedModal, body(model="m" * 201), 422, "model"),
    (SimulatedModal, body(model="m", input="text"), 422, "input"),
    (SimulatedModal, body(model="m", params=[1]), 422, "params"),
    (SimulatedModal, body(model="m", request_id=5), 422, "request_id"),
    (SimulatedOpenAi, body(model="m"), 422, "messages"),
    (SimulatedOpenAi, body(model="m", messages=[]), 422, "messages"),
    (SimulatedOpenAi, body(model="m", messages=["hi"]), 422, r"messages\[0\]"),
    (SimulatedOpenAi, body(model="m", messages=[{"role": "user", "content": 5}]), 422, "content"),
    (SimulatedOpenAi, body(model="m", messages=[{"role": "user"}], max_tokens=0), 422, "max_tokens"),
    (SimulatedExecute, body(payload={}), 422, "meta"),
    (SimulatedExecute, body(meta={"job_id": "j"}), 422, "meta.service_name"),
    (SimulatedExecute, body(meta={"service_name": "s"}, payload={"params": 3}), 422, "payload.params"),
]


@pytest.mark.parametrize(("make", "content", "status", "names"), BAD)
def test_bad_input_is_refused_and_names_the_field(
    make: Callable[[str], SimulatedDialect], content: bytes, status: int, names: str
) -> None:
    with pytest.raises(BadInputError, match=names) as refused:
        make("EU").parse(content, None)
    assert refused.value.status == status
