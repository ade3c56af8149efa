from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_config.features import FeatureConfig, StepConfig
from beacon_contracts.capabilities import Capability
from beacon_contracts.jobs import job_submission
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.domain.execution.plan import execution_keys, stage_plan
from beacon_runner.domain.inputs.chat import execution_needs
from beacon_runner.domain.jobs.admission import Admission, AdmittedJob
from tests.unit.runner_domain.factories import shipped_config

ADMISSION = Admission(shipped_config())
MATRIX = {
    "kind": "matrix",
    "questions": [{"id": "q1", "prompt": "why?"}],
    "models": ["llama3.2-1b"],
    "regions": ["US"],
}


def admit(body: dict[str, Any], spread: int = 0) -> AdmittedJob:
    return ADMISSION.admit(job_submission.validate_python(body), spread)


def refused(body: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidFieldsError) as raised:
        admit(body)
    return [(problem.field, problem.code) for problem in raised.value.problems]


def names(job: AdmittedJob) -> list[tuple[str, str, str]]:
    return [(key.item, key.model, key.region) for key in execution_keys(job.spec)]


def test_repeated_questions_models_and_regions_collapse_to_one() -> None:
    """A spec listed a model twice: 100 duplicate executions, some in the wrong region."""
    job = admit(
        {
            "kind": "matrix",
            "questions": [{"id": "q1", "prompt": "why?"}, {"id": "q1", "prompt": "why?"}],
            "models": ["llama3.2-1b", "llama3.2-1b", {"id": "llama3.2-1b", "regions": ["us"]}],
            "regions": ["US", "us-east", "USA", "eu"],
        }
    )
    assert names(job) == [("q1", "llama3.2-1b", "US"), ("q1", "llama3.2-1b", "EU")]
    assert job.total == 2


def test_a_model_with_regions_of_its_own_runs_there_alone() -> None:
    job = admit(MATRIX | {"models": ["llama3.2-1b", {"id": "qwen2.5-1.5b", "regions": ["asia-east"]}]})
    assert names(job) == [("q1", "llama3.2-1b", "US"), ("q1", "qwen2.5-1.5b", "ASIA")]


def test_two_questions_may_not_share_an_id() -> None:
    questions = [{"id": "q1", "prompt": "why?"}, {"id": "q1", "prompt": "how?"}]
    assert refused(MATRIX | {"questions": questions}) == [("questions[1].id", "taken")]


def test_each_wrong_field_is_named() -> None:
    body = MATRIX | {"models": ["nope", {"id": "sdxl", "regions": ["ASIA"]}], "regions": ["US", "mars"]}
    assert refused(body) == [
        ("regions[1]", "unknown_region"),
        ("models[0]", "unknown_model"),
        ("models[1].id", "not_served"),
    ]


def test_an_oversized_matrix_is_refused() -> None:
    questions = [{"id": f"q{number}", "prompt": "x"} for number in range(9_000)]
    body = MATRIX | {"questions": questions, "models": ["llama3.2-1b", "mistral-7b"]}
    assert refused(body) == [("questions", "too_many")]


def test_generations_without_a_region_are_spread_over_regions() -> None:
    body = {"kind": "generation", "model": "flux", "prompt": "cat"}
    assert {admit(body, spread).spec["region"] for spread in range(4)} == {"US", "EU"}


def test_a_generation_stores_only_given_options() -> None:
    job = admit({"kind": "generation", "model": "flux", "prompt": "cat", "region": "usa", "duration": 5})
    assert job.spec == {"model": "flux", "region": "US", "input": {"prompt": "cat", "duration": 5.0}}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"model": "nope"}, ("model", "unknown_model")),
        ({"region": "mars"}, ("region", "unknown_region")),
        ({"region": "ASIA"}, ("region", "not_served")),
        ({"model": "music", "duration": 999}, ("duration", "too_long")),
        ({"params": {"a": {"b": "\0"}}}, ("params.a.b", "nul")),
        ({"params": {"n": [1, 2**64]}}, ("params.n[1]", "too_large")),
        ({"params": {"n": float("inf")}}, ("params.n", "not_finite")),
    ],
)
def test_a_generation_that_cannot_run_is_refused_with_its_field(
    change: dict[str, Any], problem: tuple[str, str]
) -> None:
    body = {"kind": "generation", "model": "flux", "prompt": "cat", "region": "US"}
    assert refused(body | change) == [problem]


def test_input_nested_too_deep_is_refused() -> None:
    deep: Any = "bottom"
    for _ in range(100):
        deep = {"x": deep}
    fields = refused({"kind": "pipeline", "feature": "text_only", "input": {"prompt": "x", "more": deep}})
    assert [code for _, code in fields] == ["too_deep"]


def test_a_pipeline_stores_its_steps() -> None:
    job = admit({"kind": "pipeline", "feature": "text_only", "input": {"prompt": "city"}})
    assert (job.stages, job.total) == (2, 2)
    assert [step["name"] for step in job.spec["steps"]] == ["prompt_enhancer", "fast_chat_llm"]
    assert stage_plan(job.spec, 0, {})[0].input == {"prompt": "city"}


def test_a_pipeline_without_the_input_that_its_steps_read_is_refused() -> None:
    body = {"kind": "pipeline", "feature": "full_pipeline", "input": {"other": 1}}
    assert refused(body) == [("input.prompt", "missing")]


def test_an_unknown_feature_is_refused() -> None:
    assert refused({"kind": "pipeline", "feature": "nope", "input": {}}) == [("feature", "unknown_feature")]


def test_a_pipeline_in_a_region_that_lacks_a_step_s_model_is_refused() -> None:
    fields = refused({"kind": "pipeline", "feature": "text_only", "input": {"prompt": "x"}, "region": "EU"})
    assert ("region", "not_served") in fields


TOOLS = {"tools": [{"type": "function", "function": {"name": "f"}}]}
IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}


@pytest.mark.parametrize(
    "params",
    [
        TOOLS,
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        {"logprobs": True},
        {"n": 2},
    ],
)
def test_a_job_runs_only_where_its_parameters_have_an_effect(params: dict[str, Any]) -> None:
    """Other backends drop them: the model is behind dialect openai in ASIA, and behind modal elsewhere."""
    body = {"kind": "generation", "model": "llama3.2-1b", "prompt": "why?", "params": params}
    (name,) = params
    assert {admit(body, spread).spec["region"] for spread in range(4)} == {"ASIA"}
    assert admit(body | {"region": "apac"}).spec["region"] == "ASIA"
    assert refused(body | {"region": "us-east"}) == [(f"params.{name}", "unsupported_parameter")]
    assert admit(MATRIX | {"regions": ["ASIA"], "params": params}).total == 1
    regions = MATRIX | {"regions": ["ASIA", "EU"], "params": params}
    assert refused(regions) == [(f"params.{name}", "unsupported_parameter")]


def test_a_model_that_is_no_chat_model_takes_any_parameter() -> None:
    body = {"kind": "generation", "model": "flux", "prompt": "cat", "params": {"n": 4, **TOOLS}}
    assert admit(body).spec["params"] == body["params"]


def test_a_step_whose_input_no_backend_supports_is_refused() -> None:
    config = shipped_config()
    steps = [
        StepConfig(name="draw", model="flux", input={"prompt": "{{ input.prompt }}"}),
        StepConfig(name="see", model="mistral-7b", input={"messages": "{{ input.messages }}", "n": 1}),
        StepConfig(
            name="say", model="mistral-7b", input={"prompt": "{{ see.text }}", "tools": "{{ see.tools }}"}
        ),
    ]
    feature = {"look": FeatureConfig(steps=steps)}
    admission = Admission(config.model_copy(update={"features": feature}))

    def regions_of(**fields: Any) -> list[str]:
        given = {"prompt": "x", "messages": [IMAGE]}
        body = {"kind": "pipeline", "feature": "look", "input": given, **fields}
        spec = admission.admit(job_submission.validate_python(body), 0).spec
        return [step["region"] for step in spec["steps"]]

    assert regions_of() == ["US", "ASIA", "US"]
    with pytest.raises(InvalidFieldsError) as raised:
        regions_of(region="EU")
    assert [(each.field, each.code) for each in raised.value.problems] == [
        ("input.messages", "unsupported_parameter")
    ]


@given(
    st.dictionaries(
        st.sampled_from(["tools", "n", "response_format", "modalities", "logprobs", "messages"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text() | st.just(IMAGE),
            lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["type", "content"]), inner),
        ),
    )
)
def test_parameters_of_any_type_have_needs(params: dict[str, Any]) -> None:
    def needs(given: dict[str, Any], params: dict[str, Any]) -> AbstractSet[Capability]:
        return execution_needs("chat", given, params, {"chat"}).keys()

    of_messages = needs({"messages": params.get("messages")}, {})
    assert needs(params, {}) == needs({}, params | {"messages": 0}) | of_messages
    assert execution_needs("other", params, {}, {"chat"}) == {}


regions = st.lists(st.sampled_from(["US", "us", "us-east", "EU", "europe", "ASIA", "apac"]), min_size=1)
models = st.lists(st.sampled_from(["llama3.2-1b", "qwen2.5-1.5b", "mistral-7b"]), min_size=1)
question_ids = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1)


@given(question_ids, models, regions)
def test_no_execution_is_ever_planned_twice(ids: list[str], chosen: list[str], where: list[str]) -> None:
    questions = [{"id": name, "prompt": f"say {name}"} for name in ids]
    job = admit(MATRIX | {"questions": questions, "models": chosen, "regions": where})
    found = names(job)
    assert len(found) == len(set(found)) == job.total
    assert {item for item, _, _ in found} == set(ids)
    assert {model for _, model, _ in found} == set(chosen)


def test_the_order_of_a_plan_does_not_depend_on_when_it_is_made() -> None:
    body = MATRIX | {"models": ["mistral-7b", "llama3.2-1b"], "regions": ["ASIA", "US"]}
    plans: list[Callable[[], object]] = [lambda: stage_plan(admit(body).spec, 0, {}) for _ in range(2)]
    assert plans[0]() == plans[1]()
