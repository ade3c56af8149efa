"""Free-form input of generations: shorthands, schemas, durations, references to files."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_config import BeaconConfig
from beacon_config.features import FeatureConfig
from beacon_contracts.ids import FILE, FileId, encode_id, new_uuid
from beacon_contracts.jobs import job_submission
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.domain.files.archive_names import ArchiveNames
from beacon_runner.domain.files.file_references import file_references, files_in
from beacon_runner.domain.files.files import OutputPlace
from beacon_runner.domain.inputs.input_schema import MAX_MESSAGE, InputSchema
from beacon_runner.domain.jobs.admission import Admission, AdmittedJob
from tests.unit.runner_domain.factories import matrix_spec, shipped_config

CONFIG = shipped_config()
SCHEMA = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "maxLength": 5},
        "size": {"enum": [512, 1024]},
        "tree": {"$ref": "#/$defs/tree"},
    },
    "required": ["prompt"],
    "additionalProperties": False,
    "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
}
FLUX = {"kind": "generation", "model": "flux", "region": "US"}
FILE_ID = encode_id(FILE, new_uuid())


def with_schema(schema: dict[str, Any]) -> BeaconConfig:
    flux = CONFIG.models["flux"].model_copy(update={"input_schema": schema})
    return CONFIG.model_copy(update={"models": {**CONFIG.models, "flux": flux}})


def admit(body: dict[str, Any], config: BeaconConfig = CONFIG, tier: str | None = None) -> AdmittedJob:
    return Admission(config).admit(job_submission.validate_python(body), 0, tier)


def refused(
    body: dict[str, Any], config: BeaconConfig = CONFIG, tier: str | None = None
) -> list[tuple[str, str]]:
    with pytest.raises(InvalidFieldsError) as raised:
        admit(body, config, tier)
    return [(problem.field, problem.code) for problem in raised.value.problems]


def test_shorthands_are_fields_of_the_input() -> None:
    body = FLUX | {"input": {"size": 512, "prompt": "cat"}, "prompt": "cat", "duration": 3, "loop": True}
    assert admit(body).spec["input"] == {"size": 512, "prompt": "cat", "duration": 3, "loop": True}
    assert admit(FLUX | {"input": {}}).spec["input"] == {}


def test_a_shorthand_must_not_contradict_the_input() -> None:
    assert refused(FLUX | {"input": {"prompt": "cat"}, "prompt": "dog"}) == [("prompt", "taken")]
    assert refused(FLUX) == [("prompt", "missing")]


def test_a_question_may_be_a_plain_text() -> None:
    matrix = {"kind": "matrix", "models": ["flux"], "regions": ["US"]}
    job = admit(matrix | {"questions": ["why?", {"id": "x", "prompt": "how?"}, "why?", "when?"]})
    assert [one["id"] for one in job.spec["questions"]] == ["q1", "x", "q4"]


@pytest.mark.parametrize("place", ["duration", "input", "params"])
def test_the_longest_duration_applies_in_every_field(place: str) -> None:
    body = {"kind": "generation", "model": "music", "input": {"prompt": "a song"}}
    long = body | ({"duration": 31} if place == "duration" else {place: {"prompt": "x", "duration": 31}})
    field = place if place == "duration" else f"{place}.duration"
    assert refused(long, tier="free") == [(field, "duration_too_long")]


@pytest.mark.parametrize(
    "template", [{}, {"duration": "{{ input.duration }}"}, {"duration": "{{ input.s }}"}]
)
def test_the_longest_duration_applies_to_the_input_of_a_step(template: dict[str, Any]) -> None:
    step = {"name": "sing", "model": "music", "input": template}
    features = {"song": FeatureConfig.model_validate({"steps": [step]})}
    music = CONFIG.models["music"].model_copy(update={"max_duration_s": 20.0})
    update = {"features": features, "models": {**CONFIG.models, "music": music}}
    config = CONFIG.model_copy(update=update)
    name = "s" if "s }}" in str(template) else "duration"
    body = {"kind": "pipeline", "feature": "song"}
    codes = {code for _, code in refused(body | {"input": {name: 31}}, config, "free")}
    assert codes == {"too_long", "duration_too_long"}
    assert {code for _, code in refused(body | {"input": {name: 25}}, config, "free")} == {"too_long"}
    assert {code for _, code in refused(body | {"input": {name: 0}}, config, "free")} == {"invalid"}
    assert admit(body | {"input": {name: 19}}, config, "free").total == 1


@pytest.mark.parametrize("value", ["10", -1, True, {"s": 1}, float("inf")])
def test_a_duration_in_the_input_is_a_number_of_seconds(value: object) -> None:
    problems = refused(FLUX | {"input": {"prompt": "x", "duration": value}})
    assert ("input.duration", "invalid") in problems


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        ({"prompt": "cat", "size": 512}, []),
        ({"prompt": "cat", "tree": [[], [[]]]}, []),
        ({"size": 1}, [("input", "schema"), ("input.size", "schema")]),
        ({"prompt": "a long prompt", "extra": 1}, [("input", "schema"), ("input.prompt", "schema")]),
        ({"prompt": "cat", "tree": [[], [[], 3]]}, [("input.tree[1][1]", "schema")]),
        ({"prompt": "cat", "tree": [[]] * 10_001}, [("input", "too_many")]),
    ],
)
def test_an_input_must_satisfy_the_schema_of_its_model(
    given: dict[str, Any], problems: list[tuple[str, str]]
) -> None:
    config = with_schema(SCHEMA)
    found = refused(FLUX | {"input": given}, config) if problems else admit(FLUX | {"input": given}, config)
    if problems:
        assert isinstance(found, list)
        assert sorted(found) == problems


def test_the_questions_of_a_matrix_must_satisfy_the_schema_too() -> None:
    matrix = {"kind": "matrix", "models": ["flux"], "regions": ["US"], "questions": ["why?", "why not?"]}
    assert refused(matrix, with_schema(SCHEMA)) == [("questions[1]", "schema")]


@pytest.mark.parametrize(
    ("template", "codes"),
    [
        ({}, {"schema"}),
        ({"prompt": "{{ input.prompt }}"}, {"schema"}),
        ({"prompt": "{{ first.text }}"}, set()),  # known only when the first step has run
    ],
)
def test_the_known_fields_of_a_step_must_satisfy_the_schema(
    template: dict[str, Any], codes: set[str]
) -> None:
    steps = [
        {"name": "first", "model": "sdxl", "input": {"prompt": "x"}},
        {"name": "second", "model": "flux", "input": template},
    ]
    features = {"two": FeatureConfig.model_validate({"steps": steps})}
    config = with_schema(SCHEMA).model_copy(update={"features": features})
    body = {"kind": "pipeline", "feature": "two", "input": {"prompt": "a long prompt"}}
    assert ({code for _, code in refused(body, config)} if codes else set()) == codes
    assert admit(body | {"input": {"prompt": "short"}}, config).total == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
NAMES = st.sampled_from(
    ["prompt", "messages", "tools", "duration", "stream", "response_format", "file", "images", "n"]
)


@given(st.dictionaries(NAMES, JSON, max_size=5), st.sampled_from(["llama3.2-1b", "flux", "music"]))
def test_any_input_is_admitted_or_refused(free: dict[str, Any], model: str) -> None:
    for body in ({"input": free}, {"input": free, "prompt": "x"}, {"prompt": "x", "params": free}):
        with suppress(InvalidFieldsError):  # any other error is a 500
            admit({"kind": "generation", "model": model} | body, tier="free")


def test_messages_of_a_schema_are_short() -> None:
    schema = InputSchema({"properties": {"prompt": {"maxLength": 1}}})
    (problem,) = schema.problems({"prompt": "x" * 100_000}, "input")
    assert len(problem.message) <= MAX_MESSAGE + 1
    assert problem.message.endswith("is too long")


def test_a_schema_that_never_ends_refuses_the_input() -> None:
    endless = {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}
    (problem,) = InputSchema(endless).problems({"a": 1}, "input")
    assert "without end" in problem.message


def test_files_are_found_anywhere_in_an_input() -> None:
    second = encode_id(FILE, new_uuid())
    value = {"file": "notes.txt", "a": [{"b": {"file": FILE_ID, "weight": 1}}, {"file": second}, FILE_ID]}
    assert list(file_references(value, "input")) == [
        ("input.a[0].b.file", FILE_ID),
        ("input.a[1].file", second),
    ]
    job = admit(FLUX | {"input": value})
    assert list(job.files.values()) == ["input.a[0].b.file", "input.a[1].file"]
    assert set(files_in(value).values()) == {FILE_ID, second}


@pytest.mark.parametrize("wrong", [12, 1.5, None, True])
def test_an_object_whose_only_key_is_file_names_a_file(wrong: object) -> None:
    images = [{"file": FILE_ID}, {"file": wrong}]
    assert refused(FLUX | {"input": {"prompt": "x", "images": images}}) == [
        ("input.images[1].file", "wrong_type")
    ]
    pipeline = {"kind": "pipeline", "feature": "text_only", "input": {"prompt": "cat", "image": images[1]}}
    assert refused(pipeline) == [("input.image.file", "wrong_type")]


@pytest.mark.parametrize(
    "value",
    [
        {"file": 12, "line": 3},  # a field of that name among others
        {"file": None, "prompt": "x"},
        {"file": "notes.txt"},
        {"file": ""},
        {"file": {"file": FILE_ID}},  # a field of that name with a reference
        {"file": [{"file": FILE_ID}]},
        {"file": {"file_data": "eA==", "filename": "a.txt"}},
    ],
)
def test_a_field_that_is_called_file_may_have_any_value(value: dict[str, Any]) -> None:
    given = {"prompt": "x", "inner": value}
    assert admit(FLUX | {"input": given}).spec["input"] == given


def test_a_file_that_is_named_twice_is_checked_once() -> None:
    job = admit(FLUX | {"input": {"first": {"file": FILE_ID}, "second": {"file": FILE_ID}}})
    assert list(job.files.values()) == ["input.first.file"]


def test_an_input_names_a_bounded_number_of_files() -> None:
    many = [{"file": encode_id(FILE, new_uuid())} for _ in range(1_001)]
    assert refused(FLUX | {"input": {"images": many}}) == [("input", "too_many")]


@pytest.mark.parametrize(
    "body",
    [
        FLUX | {"prompt": "cat"},
        {"kind": "matrix", "models": ["flux"], "regions": ["US"], "questions": ["why?"]},
        {"kind": "pipeline", "feature": "text_only", "input": {"prompt": "cat"}},
    ],
    ids=["generation", "matrix", "pipeline"],
)
def test_a_file_among_the_params_is_refused(body: dict[str, Any]) -> None:
    params = {"strength": 1, "images": [{"file": FILE_ID}]}
    assert refused(body | {"params": params}) == [("params.images[0].file", "misplaced_file")]


def test_executions_with_similar_names_do_not_share_names_in_an_archive() -> None:
    questions = [{"id": name, "prompt": name} for name in ("q/1", "q-1", "Q:1")]
    names = ArchiveNames(matrix_spec() | {"questions": questions})
    places = [OutputPlace(0, ordinal, FileId(new_uuid())) for ordinal in range(6)]
    given_names = [names.of(place, "a.png") for place in places]
    assert len({name.casefold() for name in given_names}) == len(given_names)


@given(st.lists(st.tuples(st.integers(0, 3), st.text(max_size=30)), max_size=8))
def test_names_in_an_archive_are_unique_and_stay_inside(files: list[tuple[int, str]]) -> None:
    names = ArchiveNames(matrix_spec())
    given_names = [
        names.of(OutputPlace(0, ordinal, FileId(new_uuid())), name) for ordinal, name in sorted(files)
    ]
    assert len({name.casefold() for name in given_names}) == len(given_names)
    for name in given_names:
        folder, place, file = name.split("/")
        assert {".", "..", ""}.isdisjoint({folder, place, file})
        assert "\\" not in name
        assert name.isprintable()
