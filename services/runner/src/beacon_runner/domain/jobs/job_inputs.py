"""The inputs that a submitted job gives its executions, in normal form, and what is wrong with them."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from beacon_config.features import INPUT, FeatureConfig, StepConfig
from beacon_contracts.jobs import GenerationJob, MatrixJob
from beacon_contracts.problem import FieldProblem
from beacon_runner.domain.execution.template import MissingReferenceError, references, render, resolve
from beacon_runner.domain.inputs.json_limits import json_problems


def generation_input(job: GenerationJob, problems: list[FieldProblem]) -> dict[str, Any]:
    """The input with the shorthands that were given; a field given twice must have one value."""
    given: dict[str, Any] = {} if job.input is None else dict(job.input)
    if job.input is None and job.prompt is None:
        message = "is missing; give a prompt or an input"
        problems.append(FieldProblem(field="prompt", message=message, code="missing"))
    if job.input is not None:
        problems += json_problems(job.input, "input")
    for name in ("prompt", "duration", "loop"):
        value = getattr(job, name)
        if value is None or value is False:
            continue
        if given.setdefault(name, value) != value:
            message = f"differs from input.{name}; give one of them"
            problems.append(FieldProblem(field=name, message=message, code="taken"))
    return given


def collapse_questions(job: MatrixJob, problems: list[FieldProblem]) -> dict[str, str]:
    """Each question once; two that share an id must be the same question."""
    questions: dict[str, str] = {}
    for number, question in enumerate(job.questions):
        if questions.setdefault(question.id, question.prompt) != question.prompt:
            message = f"the id {question.id!r} is used by an earlier, different question"
            problems.append(FieldProblem(field=f"questions[{number}].id", message=message, code="taken"))
    return questions


def feature_input_problems(feature: FeatureConfig, given: Mapping[str, Any]) -> Iterator[FieldProblem]:
    """Every input field that a step refers to must be present; otherwise a later step would fail."""
    wanted = {name: None for step in feature.steps for name in references(step.input)}
    for reference in wanted:
        if reference.split(".")[0] != INPUT:
            continue
        try:
            resolve(reference, {INPUT: given})
        except MissingReferenceError:
            yield FieldProblem(field=reference, message="is needed by this feature", code="missing")


def known_input(step: StepConfig, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a step's input is known to have before any step has run."""
    if not step.input:
        return given
    known = {}
    for name, template in step.input.items():
        with suppress(MissingReferenceError):
            known[name] = render(template, {INPUT: given})
    return known


def is_fully_known(step: StepConfig, known: Mapping[str, Any]) -> bool:
    """Whether no result of an earlier step is missing in it."""
    return not step.input or len(known) == len(step.input)
