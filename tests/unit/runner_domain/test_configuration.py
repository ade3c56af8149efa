"""What work a change of the configuration strands."""

from typing import Any

import pytest

from beacon_config import BeaconConfig, parse_document
from beacon_contracts.capabilities import Capability
from beacon_contracts.inference import Failover
from beacon_runner.domain.configuration import (
    classes_without_pool,
    is_served,
    less_served_models,
    unserved_by,
)


def config(pools: dict[str, Any] | None = None, **backends: tuple[str, list[str]]) -> BeaconConfig:
    """Backends by name, each with its region and models."""
    document: dict[str, Any] = {
        "backends": {
            name: {"dialect": "openai", "url": "http://gpu/v1", "region": region, "models": models}
            for name, (region, models) in backends.items()
        }
    }
    if pools is not None:
        document |= {"pools": pools, "tiers": {"all": {"class": "low"}}}
    return parse_document(document, {})


BOTH = config(us=("US", ["a", "b"]), eu=("EU", ["a"]))
EU_ONLY = config(eu=("EU", ["a"]))

GENERATION = {"model": "a", "region": "US", "input": {}}
MATRIX = {
    "questions": [{"id": "q1", "prompt": "x"}, {"id": "q2", "prompt": "y"}],
    "targets": [["a", ["US", "EU"]]],
    "failover": "pinned",
}
PIPELINE = {
    "steps": [
        {"name": "one", "model": "a", "region": "EU"},
        {"name": "two", "model": "b", "region": "EU"},
    ],
    "input": {},
}


def unserved(after: BeaconConfig, spec: dict[str, Any], stage: int = 0, *ended: int) -> list[tuple[str, str]]:
    return list(unserved_by(after)(spec, stage, frozenset(ended)))


@pytest.mark.parametrize(
    ("model", "region", "failover", "expected"),
    [
        ("a", "EU", Failover.PINNED, True),
        ("b", "EU", Failover.ANY, True),
        ("b", "EU", Failover.PINNED, False),
        ("c", "EU", Failover.ANY, False),
        ("a", "ASIA", Failover.ANY, False),
    ],
)
def test_work_that_a_configuration_serves(
    model: str, region: str, failover: Failover, expected: bool
) -> None:
    assert is_served(BOTH, model, region, failover) is expected


def test_a_drained_backend_strands_nothing() -> None:
    document = BOTH.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["backends"]["us"] |= {"drain": True, "slots": 0}
    drained = parse_document(document, {})
    assert less_served_models(BOTH, drained) == frozenset()
    assert unserved(drained, GENERATION) == []


def test_only_less_served_models_can_have_stranded_work() -> None:
    assert less_served_models(BOTH, EU_ONLY) == {"a", "b"}
    assert less_served_models(EU_ONLY, BOTH) == frozenset()


def test_work_that_needs_a_lost_capability_is_stranded() -> None:
    document = BOTH.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["backends"]["us"] |= {"capabilities": ["n"]}
    document["backends"]["eu"] |= {"capabilities": ["n"]}
    plain = parse_document(document, {})
    tools = {"tools": [{"type": "function"}]}
    assert less_served_models(BOTH, plain) == {"a", "b"}
    assert unserved(plain, GENERATION) == []
    assert unserved(plain, {**GENERATION, "params": tools}) == [("a", "US")]
    assert unserved(plain, {**GENERATION, "input": tools}) == [("a", "US")]
    step = {"name": "one", "model": "a", "region": "EU", "input": {"prompt": "{{ input.prompt }}"}}
    assert unserved(plain, {"steps": [step], "input": {"prompt": "x"}, "params": tools}) == [("a", "EU")]
    assert not is_served(plain, "a", "US", Failover.ANY, {Capability.TOOLS})


def test_work_of_a_removed_region_is_stranded_even_if_it_might_move() -> None:
    assert unserved(EU_ONLY, GENERATION) == [("a", "US")]
    assert unserved(EU_ONLY, {**GENERATION, "region": "EU"}) == []


def test_each_unfinished_execution_of_a_matrix_counts() -> None:
    assert unserved(EU_ONLY, MATRIX) == [("a", "US")] * 2
    assert unserved(EU_ONLY, MATRIX, 0, 0, 1) == [("a", "US")]


def test_later_stages_of_a_pipeline_count_and_earlier_ones_do_not() -> None:
    assert unserved(EU_ONLY, PIPELINE) == [("b", "EU")]
    assert unserved(config(us=("EU", ["b"])), PIPELINE, 1) == []


def test_a_class_without_its_last_pool_is_named() -> None:
    all_classes = {"all": {"slots": 1, "classes": ["low", "high"]}}
    strict = {"all": {"slots": 1, "classes": ["low", "high"], "strict": True}}
    backend = ("US", ["a"])
    before, after = config(all_classes, gpu=backend), config(strict, gpu=backend)
    assert classes_without_pool(before, after) == {"high"}
    assert classes_without_pool(after, before) == frozenset()
