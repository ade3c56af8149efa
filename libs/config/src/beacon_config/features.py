"""Pipelines: features, their steps, and the templates that pass results to later steps."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from beacon_config.section import Section
from beacon_contracts.model import Name

REFERENCE = re.compile(r"\{\{\s*([A-Za-z0-9_]+)((?:\.[A-Za-z0-9_]+)*)\s*\}\}")
_BRACES = re.compile(r"\{\{.*?\}\}|\{\{|\}\}", re.DOTALL)

INPUT = "input"


_STEP_NAME = re.compile("[A-Za-z0-9_]{1,64}")


def _valid_step_name(name: str) -> str:
    if _STEP_NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} cannot be referred to in templates: use letters, digits and _ only")
    if name == INPUT:
        raise ValueError(f"{INPUT!r} is reserved for the job's input; give the step another name")
    return name


class StepConfig(Section):
    """One step of a pipeline."""

    name: Annotated[str, AfterValidator(_valid_step_name)] = Field(
        description="Name of its result in templates"
    )
    model: Name = Field(description="The model that runs it")
    attempts: Annotated[int, Field(ge=1, le=100)] = Field(default=3, description="Attempts of the step")
    input: dict[str, Any] = Field(
        default_factory=dict,
        description="Its input; {{ step.field }} is a value of an earlier step, {{ input.field }} of the job",
    )


class FeatureConfig(Section):
    """A pipeline."""

    steps: Annotated[list[StepConfig], Field(min_length=1, max_length=100)] = Field(
        description="One after another"
    )


def template_errors(step: StepConfig, known: set[str]) -> Iterator[str]:
    """Errors in the templates of a step, given the names that it may refer to."""
    for text in _texts(step.input):
        for match in _BRACES.finditer(text):
            reference = REFERENCE.fullmatch(match.group())
            if reference is None:
                yield f"step {step.name}: {match.group()!r} is not of the form {{{{ name.field }}}}"
            elif reference.group(1) not in known:
                yield (
                    f"step {step.name} refers to {reference.group(1)!r}, "
                    f"but only {', '.join(sorted(known))} come before it"
                )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
