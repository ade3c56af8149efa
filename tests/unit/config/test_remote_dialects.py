"""Backends that submit and poll, and workflows: what is refused when the configuration is loaded, and how."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from beacon_config.loader import ConfigError, load_config
from beacon_config.mappings import POLLING_PRESETS

BACKEND = """
[backends.gpu]
dialect = "{dialect}"
url = "http://127.0.0.1:1"
models = ["m"]
{keys}
"""
GRAPH = {"6": {"class_type": "CLIPTextEncode", "inputs": {"text": ""}}}


def load(folder: Path, dialect: str, keys: str = "", more: str = "") -> Any:
    path = folder / "beacon.toml"
    path.write_text(BACKEND.format(dialect=dialect, keys=keys) + more, encoding="utf-8")
    return load_config(path, {})


def errors(folder: Path, dialect: str, keys: str = "", more: str = "") -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(folder, dialect, keys, more)
    return [line.split(": ", 1)[1] for line in str(refused.value).splitlines()]


@pytest.mark.parametrize("preset", list(POLLING_PRESETS))
def test_a_preset_is_enough(tmp_path: Path, preset: str) -> None:
    config = load(tmp_path, "async", f'preset = "{preset}"')
    assert config.backends["gpu"].polled_by is POLLING_PRESETS[preset]


@pytest.mark.parametrize(
    ("keys", "fetches", "hosts"),
    [
        ('preset = "replicate"', True, ["replicate.delivery", "*.replicate.delivery"]),
        (
            'preset = "fal"\nfetch_hosts = ["cdn.example.com"]',
            True,
            ["cdn.example.com", "fal.media", "*.fal.media"],
        ),
        ('preset = "fal"\nfetch_outputs = false', False, ["fal.media", "*.fal.media"]),
        ('preset = "runpod"', False, []),
        ('preset = "runpod"\nfetch_outputs = true', True, []),
    ],
)
def test_files_of_providers_that_expire_are_fetched(
    tmp_path: Path, keys: str, fetches: bool, hosts: list[str]
) -> None:
    backend = load(tmp_path, "async", keys).backends["gpu"]
    assert (backend.fetches_outputs, backend.output_hosts) == (fetches, hosts)


@pytest.mark.parametrize(
    ("dialect", "keys", "expected"),
    [
        ("async", 'preset = "modal"', "backends.gpu.preset: should be 'replicate', 'runpod' or 'fal', not"),
        ("async", "", "backends.gpu: needs one of preset (replicate, runpod, fal) and [polling]"),
        ("modal", 'preset = "fal"', "backends.gpu: has preset, but its dialect is modal"),
        (
            "modal",
            'fetch_outputs = false\nfetch_hosts = ["cdn.example.com"]',
            "backends.gpu: has fetch_hosts although fetch_outputs is false",
        ),
        ("openai", "spawn = true", "backends.gpu: has spawn, but its dialect is openai"),
        (
            "async",
            'polling = { status_path = "/runs" }',
            "backends.gpu.polling: status_path '/runs' does not contain {id}",
        ),
        (
            "async",
            'polling = { status_path = "/{id}", running = ["x"], failed = ["x"] }',
            "backends.gpu.polling: has the word 'x' for two states",
        ),
        (
            "async",
            'polling = { status_path = "/{id}", state = "a[" }',
            "backends.gpu.polling.state: is not a JMESPath expression: ",
        ),
        (
            "async",
            'preset = "fal"\nmodel_names = { other = "x" }',
            "backends.gpu: has model_names.other, which is not one of its models",
        ),
    ],
)
def test_an_unusable_provider_is_named_by_its_key(
    tmp_path: Path, dialect: str, keys: str, expected: str
) -> None:
    found = errors(tmp_path, dialect, keys)
    assert any(line.startswith(expected) for line in found), found


def test_a_workflow_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "flow.json").write_text(json.dumps(GRAPH), encoding="utf-8")
    more = '[models.m.workflow]\ngraph = "flow.json"\ninputs = { prompt = "6.text" }\n'

    config = load(tmp_path, "comfyui", more=more)

    assert config.models["m"].workflow.graph == GRAPH


@pytest.mark.parametrize(
    ("graph", "keys", "expected"),
    [
        (GRAPH, 'inputs = { prompt = "7.text" }', "sets '7.text', but the workflow has no node '7'"),
        (
            GRAPH,
            'inputs = { prompt = "6.txt" }',
            "sets '6.txt', but node '6' (CLIPTextEncode) has no input 'txt'",
        ),
        (GRAPH, 'outputs = ["9"]', "outputs names '9', but the workflow has no such node"),
        ({"nodes": [], "links": []}, "", "is a workflow of the editor: export it with `Export (API)`"),
        ({"6": {"inputs": {}}}, "", "node '6' has no class_type"),
        ([], "", "should be a table"),
    ],
)
def test_an_unusable_workflow_is_named_by_its_key(
    tmp_path: Path, graph: object, keys: str, expected: str
) -> None:
    (tmp_path / "flow.json").write_text(json.dumps(graph), encoding="utf-8")

    found = errors(tmp_path, "comfyui", more=f'[models.m.workflow]\ngraph = "flow.json"\n{keys}\n')

    assert any(line.startswith("models.m.workflow") and expected in line for line in found), found


def test_the_inputs_of_a_workflow_have_a_schema(tmp_path: Path) -> None:
    nodes = {
        "3": {"class_type": "KSampler", "inputs": {"seed": 7, "cfg": 7.5, "model": ["4", 0], "tiled": False}},
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat"}},
        "10": {"class_type": "LoadImage", "inputs": {"image": "example.png"}},
    }
    (tmp_path / "flow.json").write_text(json.dumps(nodes), encoding="utf-8")
    inputs = (
        '{ prompt = "6.text", seed = "3.seed", tiled = "3.tiled", photo = "10.image", model = "3.model" }'
    )
    more = f'[models.m.workflow]\ngraph = "flow.json"\ninputs = {inputs}\n'

    schema = load(tmp_path, "comfyui", more=more).models["m"].schema_of_inputs

    assert schema["properties"] == {
        "prompt": {"type": "string", "default": "a cat"},
        "seed": {"type": "number", "default": 7},
        "tiled": {"type": "boolean", "default": False},
        "photo": {"type": ["object", "string"], "properties": {"file": {"type": "string"}}},
        "model": {},
    }
    valid = Draft202012Validator(schema).is_valid
    assert valid({"prompt": "x", "seed": 1.5, "photo": {"file": "file_a"}, "duration": 3})
    assert valid({"photo": "example.png"})
    assert not valid({"style": "oil"})
    assert not valid({"seed": "seven"})


def test_an_unknown_field_is_refused_with_the_fields_of_the_workflow(tmp_path: Path) -> None:
    (tmp_path / "flow.json").write_text(json.dumps(GRAPH))
    more = '[models.m.workflow]\ngraph = "flow.json"\ninputs = { text = "6.text" }\n'
    schema = load(tmp_path, "comfyui", more=more).models["m"].schema_of_inputs
    (error,) = Draft202012Validator(schema).iter_errors({"prompt": "a cat"})

    assert error.message == "'prompt' is not one of ['text', 'duration']"


def test_a_given_schema_replaces_that_of_the_workflow(tmp_path: Path) -> None:
    (tmp_path / "flow.json").write_text(json.dumps(GRAPH), encoding="utf-8")
    more = '[models.m]\ninput_schema = { maxProperties = 1 }\n[models.m.workflow]\ngraph = "flow.json"\n'

    assert load(tmp_path, "comfyui", more=more).models["m"].schema_of_inputs == {"maxProperties": 1}


def test_a_missing_workflow_file_is_named(tmp_path: Path) -> None:
    (line,) = errors(tmp_path, "comfyui", more='[models.m.workflow]\ngraph = "flow.json"\n')
    assert line.startswith("models.m.workflow.graph: ")
    assert "flow.json cannot be read" in line


def test_comfyui_without_a_workflow_is_refused(tmp_path: Path) -> None:
    assert errors(tmp_path, "comfyui", more="[models.m]\n") == [
        "backend gpu has dialect comfyui, but models.m has no workflow"
    ]
