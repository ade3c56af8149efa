"""Request models refuse unknown fields and are bounded; response models ignore unknown fields."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from beacon_contracts.events import EventType, JobEvent
from beacon_contracts.failures import Failure
from beacon_contracts.inference import InferenceRequest, InferenceState, InferenceView
from beacon_contracts.jobs import GenerationJob, MatrixJob, PipelineJob, job_submission
from beacon_contracts.model import Name, Text
from beacon_contracts.problem import FieldProblem, Problem

MATRIX: dict[str, Any] = {
    "kind": "matrix",
    "name": "bias check",
    "questions": [{"id": "q1", "prompt": "why?"}],
    "models": ["llama3.2-1b", {"id": "qwen2.5-1.5b", "regions": ["EU"]}],
    "regions": ["US", "EU", "ASIA"],
    "params": {"temperature": 0.1, "max_tokens": 256},
    "failover": "any",
}
PIPELINE: dict[str, Any] = {"kind": "pipeline", "feature": "full_pipeline", "input": {"prompt": "a city"}}
GENERATION: dict[str, Any] = {
    "kind": "generation",
    "model": "flux",
    "prompt": "cat",
    "duration": 10,
    "region": "US",
}
REQUEST: dict[str, Any] = {"request_id": "exe_1.0.0", "model": "flux", "region": "US", "input": {}}


def where(error: pytest.ExceptionInfo[ValidationError]) -> list[str]:
    return [".".join(str(place) for place in problem["loc"]) for problem in error.value.errors()]


@pytest.mark.parametrize(
    ("body", "shape"), [(MATRIX, MatrixJob), (PIPELINE, PipelineJob), (GENERATION, GenerationJob)]
)
def test_documented_examples_are_distinguished_by_kind(body: dict[str, Any], shape: type) -> None:
    assert type(job_submission.validate_python(body)) is shape


@pytest.mark.parametrize("body", [MATRIX, PIPELINE, GENERATION])
def test_a_job_is_unchanged_by_encoding(body: dict[str, Any]) -> None:
    job = job_submission.validate_python(body)
    assert job_submission.validate_json(job_submission.dump_json(job)) == job


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (MATRIX | {"prioritty": "high"}, "matrix.prioritty"),
        (MATRIX | {"questions": [{"id": "q1", "prompt": "why?", "extra": 1}]}, "matrix.questions.0.extra"),
        (PIPELINE | {"model": "flux"}, "pipeline.model"),
        (GENERATION | {"regions": ["US"]}, "generation.regions"),
    ],
)
def test_an_unknown_field_is_refused_by_name(body: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as refused:
        job_submission.validate_python(body)
    assert place in where(refused)


def test_an_unknown_field_of_a_request_is_refused_by_name() -> None:
    with pytest.raises(ValidationError) as refused:
        InferenceRequest.model_validate(REQUEST | {"pirority": 1, "meta": {"job_id": "j", "step": 1}})
    assert sorted(where(refused)) == ["meta.step", "pirority"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"questions": []}, "questions"),
        ({"models": []}, "models"),
        ({"regions": []}, "regions"),
        ({"questions": [{"id": "q1", "prompt": ""}]}, "questions.0.prompt"),
        ({"questions": [{"id": "q1", "prompt": "a\x00b"}]}, "questions.0.prompt"),
        ({"questions": [{"id": "", "prompt": "x"}]}, "questions.0.id"),
        ({"questions": [{"id": "q1", "prompt": "x" * 100_001}]}, "questions.0.prompt"),
        ({"name": "n" * 201}, "name"),
        ({"regions": ["no such place!"]}, "regions.0"),
        ({"regions": "US"}, "regions"),
        ({"failover": "sometimes"}, "failover"),
        ({"params": [1]}, "params"),
        ({"regions": ["US"] * 101}, "regions"),
    ],
)
def test_an_empty_or_oversized_matrix_is_refused_at_its_field(change: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as refused:
        job_submission.validate_python(MATRIX | change)
    assert f"matrix.{place}" in where(refused)


@pytest.mark.parametrize("duration", [0, -1, 86_401, float("nan"), float("inf"), "long"])
def test_a_duration_is_a_positive_number_of_seconds(duration: object) -> None:
    with pytest.raises(ValidationError) as refused:
        job_submission.validate_python(GENERATION | {"duration": duration})
    assert where(refused) == ["generation.duration"]


@pytest.mark.parametrize("body", [{}, {"kind": "batch"}, {"kind": None}, [], "x"])
def test_a_body_without_a_known_kind_is_refused(body: object) -> None:
    with pytest.raises(ValidationError):
        job_submission.validate_python(body)


@pytest.mark.parametrize("start_by", [float("nan"), float("inf")])
def test_not_a_number_is_refused_as_a_time(start_by: float) -> None:
    with pytest.raises(ValidationError):
        InferenceRequest.model_validate(REQUEST | {"start_by": start_by})


def test_unknown_fields_of_a_response_are_ignored() -> None:
    view = {
        "request_id": "r",
        "state": "queued",
        "model": "m",
        "requested_region": "US",
        "fence": 1,
        "new_field_of_a_later_version": True,
    }
    assert InferenceView.model_validate(view).state is InferenceState.QUEUED


@pytest.mark.parametrize("state", list(InferenceState))
def test_three_states_end_an_inference(state: InferenceState) -> None:
    assert state.terminal == (state in {"completed", "failed", "cancelled"})


def test_models_are_immutable() -> None:
    request = InferenceRequest.model_validate(REQUEST)
    with pytest.raises(ValidationError, match="frozen"):
        request.fence = 9  # type: ignore[misc]


def test_a_problem_keeps_unknown_fields_and_omits_empty_ones() -> None:
    problem = Problem.model_validate(
        {
            "title": "Too many",
            "status": 429,
            "code": "rate_limited",
            "detail": "3 per hour",
            "limit": 3,
            "used": 3,
        }
    )
    assert problem.document() == {
        "type": "urn:beacon:error:rate_limited",
        "title": "Too many",
        "status": 429,
        "code": "rate_limited",
        "detail": "3 per hour",
        "limit": 3,
        "used": 3,
    }


def test_a_problem_names_the_fields_that_are_wrong() -> None:
    wrong = FieldProblem(field="models[0]", message="there is no such model", code="unknown_model")
    problem = Problem(
        title="Bad input", status=422, code="invalid", detail="1 field is wrong", errors=[wrong]
    )
    assert problem.document()["errors"] == [
        {"field": "models[0]", "message": "there is no such model", "code": "unknown_model"}
    ]


def test_an_event_is_unchanged_by_encoding() -> None:
    event = JobEvent.model_validate(
        {
            "seq": 3,
            "type": "JOB_QUEUED",
            "job_id": "job_1",
            "at": "2026-01-01T00:00:00Z",
            "data": {"position": 2},
        }
    )
    assert event.type is EventType.JOB_QUEUED
    assert JobEvent.model_validate_json(event.model_dump_json()) == event


def test_a_failure_has_stage_retryable_and_message() -> None:
    with pytest.raises(ValidationError) as refused:
        Failure.model_validate({"code": "x"})
    assert where(refused) == ["stage", "retryable", "message"]


NAME: TypeAdapter[str] = TypeAdapter(Name)
TEXT: TypeAdapter[str] = TypeAdapter(Text)


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}", fullmatch=True))
def test_a_name_is_kept_unchanged(name: str) -> None:
    assert NAME.validate_python(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a b", "a\n", "ä", "a" * 65, "../x", "a\x00"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        NAME.validate_python(name)


@given(st.text())
def test_text_is_anything_that_postgres_can_store(text: str) -> None:
    if "\x00" in text:
        with pytest.raises(ValidationError):
            TEXT.validate_python(text)
    else:
        assert TEXT.validate_python(text) == text


def test_a_lone_surrogate_is_not_text() -> None:
    with pytest.raises(ValidationError):
        TEXT.validate_python("\ud800")
