"""The limits of a tier for one request, in every field that can have the value."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_config import BeaconConfig
from beacon_contracts.jobs import job_submission
from beacon_runner.domain.accounts.skip_price import job_seconds, skip_price
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.domain.jobs.admission import Admission
from beacon_runner.domain.limits.tier_rules import request_problems
from tests.unit.runner_domain.factories import shipped_config

CONFIG = shipped_config()
MUSIC = {"kind": "generation", "model": "music", "prompt": "a bell", "region": "US"}
QUESTIONS = [{"id": f"q{number}", "prompt": "why?"} for number in range(3_000)]
MATRIX = {
    "kind": "matrix",
    "questions": QUESTIONS,
    "models": ["llama3.2-1b", "qwen2.5-1.5b", "mistral-7b"],
    "regions": ["US"],
}
PIPELINE = {"kind": "pipeline", "feature": "text_only", "input": {"prompt": "a city"}}


def with_models(*models: str) -> BeaconConfig:
    free = CONFIG.tiers["free"].model_copy(update={"models": list(models)})
    return CONFIG.model_copy(update={"tiers": CONFIG.tiers | {"free": free}})


def problems(
    body: dict[str, Any], tier: str = "free", config: BeaconConfig = CONFIG
) -> list[tuple[str, str]]:
    try:
        Admission(config).admit(job_submission.validate_python(body), 0, tier)
    except InvalidFieldsError as error:
        return [(problem.field, problem.code) for problem in error.problems]
    return []


def spec(body: dict[str, Any]) -> Any:
    return Admission(CONFIG).admit(job_submission.validate_python(body), 0).spec


def test_a_matrix_above_the_executions_of_the_tier_is_refused_with_both_numbers() -> None:
    with pytest.raises(InvalidFieldsError, match=r"9000 executions.*free.*100") as raised:
        Admission(CONFIG).admit(job_submission.validate_python(MATRIX), 0, "free")
    assert [problem.code for problem in raised.value.problems] == ["executions_per_job_limit"]
    assert problems(MATRIX, "creator") == problems(MATRIX, "admin") == []
    assert problems(MATRIX | {"questions": QUESTIONS[:33]}) == []
    assert problems(MATRIX | {"questions": QUESTIONS[:34]}) == [("questions", "executions_per_job_limit")]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (MUSIC | {"duration": 31}, "duration"),
        (MUSIC | {"duration": 1, "params": {"duration": 31}}, "params.duration"),
        (MATRIX | {"questions": QUESTIONS[:1], "params": {"duration": 31}}, "params.duration"),
        (PIPELINE | {"params": {"duration": 31}}, "params.duration"),
        (PIPELINE | {"input": {"prompt": "a city", "duration": 31}}, "input.duration"),
    ],
)
def test_a_duration_above_the_tier_is_refused_in_every_field(body: dict[str, Any], field: str) -> None:
    assert problems(body) == [(field, "duration_too_long")]
    assert problems(body, "creator") == []


@pytest.mark.parametrize("value", ["600", 0, -1, True, [30], {"seconds": 30}])
def test_a_duration_that_is_no_positive_number_is_refused(value: object) -> None:
    assert problems(MUSIC | {"params": {"duration": value}}) == [("params.duration", "invalid")]


def test_the_longest_duration_of_a_model_applies_to_params_too() -> None:
    assert problems(MUSIC | {"params": {"duration": 181}}, "admin") == [("params.duration", "too_long")]


def test_only_the_models_of_the_tier_are_allowed() -> None:
    config = with_models("llama3.2-1b", "prompt_enhancer")
    assert problems(MUSIC, "free", config) == [("model", "model_not_allowed")]
    assert problems(MUSIC, "supporter", config) == []
    assert problems(PIPELINE, "free", config) == [("feature", "model_not_allowed")]
    models = ["llama3.2-1b", {"id": "mistral-7b", "regions": ["US"]}]
    matrix = MATRIX | {"questions": QUESTIONS[:1], "models": models}
    assert problems(matrix, "free", config) == [("models[1].id", "model_not_allowed")]


places = st.sampled_from(["", "input", "params"])


@given(st.dictionaries(places, st.floats(0.5, 200), min_size=1), st.sampled_from(list(CONFIG.tiers)))
def test_a_body_of_v1_is_refused_for_its_longest_duration(durations: dict[str, float], tier: str) -> None:
    body: dict[str, Any] = {"model": "music", "duration": None}
    for place, seconds in durations.items():
        body |= {place: {"duration": seconds}} if place else {"duration": seconds}
    allowed_s = min(CONFIG.tiers[tier].max_duration_s or 1e9, CONFIG.models["music"].max_duration_s or 1e9)
    assert bool(request_problems(CONFIG, tier, "music", body)) is (max(durations.values()) > allowed_s)


def test_a_model_that_the_tier_may_not_use_is_refused_at_v1() -> None:
    (problem,) = request_problems(with_models("flux"), "free", "music", {"model": "music"})
    assert (problem.field, problem.code) == ("model", "model_not_allowed")


@given(st.floats(0.5, 170), st.floats(0.5, 170))
def test_the_price_of_a_generation_follows_its_longest_duration(one: float, other: float) -> None:
    both = spec(MUSIC | {"duration": one, "params": {"duration": other}})
    assert job_seconds(CONFIG, both) == max(one, other)
    alone = [spec(MUSIC | {"duration": one}), spec(MUSIC | {"params": {"duration": other}})]
    assert skip_price(CONFIG, both) == max(skip_price(CONFIG, each) for each in alone)


def test_a_duration_in_params_applies_to_each_execution() -> None:
    matrix = MATRIX | {"questions": QUESTIONS[:5], "params": {"duration": 20}}
    assert job_seconds(CONFIG, spec(matrix)) == 5 * 3 * 20
    assert job_seconds(CONFIG, spec(PIPELINE | {"params": {"duration": 20}})) == 2 * 20
    in_input = PIPELINE | {"input": {"prompt": "a city", "duration": 20}}
    assert job_seconds(CONFIG, spec(in_input)) == 20
