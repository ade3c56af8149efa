"""Checks a submission against the configuration and converts it to the form that is stored and run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, assert_never

from beacon_config import BeaconConfig
from beacon_config.features import StepConfig
from beacon_contracts.capabilities import Capability
from beacon_contracts.ids import FileId
from beacon_contracts.inference import Failover
from beacon_contracts.jobs import GenerationJob, MatrixJob, ModelChoice, PipelineJob
from beacon_contracts.problem import FieldProblem
from beacon_contracts.tiers import Tier
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.domain.files.file_references import misplaced_files, named_files
from beacon_runner.domain.inputs.chat import execution_needs, unsupported
from beacon_runner.domain.inputs.input_schema import InputSchema
from beacon_runner.domain.inputs.json_limits import json_problems
from beacon_runner.domain.jobs.job_filter import labels_of
from beacon_runner.domain.jobs.job_inputs import (
    collapse_questions,
    feature_input_problems,
    generation_input,
    is_fully_known,
    known_input,
)
from beacon_runner.domain.limits.tier_rules import (
    DURATION,
    duration_problems,
    durations,
    execution_problems,
    model_problems,
)

Needs = Mapping[Capability, str]
Submission = MatrixJob | PipelineJob | GenerationJob


_NO_FILES: Mapping[FileId, str] = MappingProxyType({})
UNSUPPORTED_PARAMETER = "unsupported_parameter"


class AdmittedJob(NamedTuple):
    """A job ready to be stored. `spec` is complete: running it needs no configuration.

    `model`: its only one. `labels`: its tags, metadata and several models, by which lists can be filtered.
    """

    kind: str
    name: str
    spec: Mapping[str, Any]
    stages: int
    total: int
    model: str | None = None
    labels: Mapping[str, Any] | None = None
    files: Mapping[FileId, str] = _NO_FILES
    """The files that the input names, each with its field."""


class Admission:
    """The configuration, indexed for the checks of submissions."""

    def __init__(self, config: BeaconConfig) -> None:
        self._config = config
        self._regions = config.region_names
        self._serving: dict[str, tuple[str, ...]] = {
            model: tuple(
                region
                for region in config.regions
                if any(b.region == region and model in b.models for b in config.backends.values())
            )
            for model in config.models
        }
        self._chat_models = frozenset(config.chat_models)
        self._schemas = {
            name: InputSchema(schema)
            for name, model in config.models.items()
            if (schema := model.schema_of_inputs) is not None
        }
        self._able: dict[tuple[str, str], list[frozenset[Capability]]] = {}
        for backend in config.backends.values():
            for model in backend.models:
                self._able.setdefault((model, backend.region), []).append(backend.able)

    def admit(self, submission: Submission, spread: int, tier: Tier | None = None) -> AdmittedJob:
        """The job in normal form; `spread` selects a region where the user named none.

        `tier`: its models, its longest duration and its executions per job are checked too.
        """
        match submission:
            case GenerationJob():
                return self._generation(submission, spread, tier)
            case MatrixJob():
                return self._matrix(submission, tier)
            case PipelineJob():
                return self._pipeline(submission, spread, tier)
            case _:
                assert_never(submission)

    def regions_of(self, model: str) -> tuple[str, ...]:
        """Where the model can run, in the configuration's order."""
        return self._serving[model]

    def _generation(self, job: GenerationJob, spread: int, tier: Tier | None) -> AdmittedJob:
        model = job.model
        problems = list(json_problems(job.params, "params")) if job.params else []
        given, files = generation_input(job, problems), _NO_FILES
        needs = execution_needs(model, given, job.params, self._chat_models)
        region = self._region_of(model, "model", job.region, spread, problems, needs=needs)
        if tier is not None and self._config.tiers[tier].models:
            problems += model_problems(self._config, tier, model, "model")
        if job.duration is not None or job.input or job.params:
            found = durations({"duration": job.duration, "input": job.input, "params": job.params})
            problems += duration_problems(self._config, tier, [model], found)
        if job.params and not problems:
            problems += misplaced_files(job.params, "params")
        if job.input and not problems:
            files = named_files(job.input, "input", problems)
        if region is None or problems:
            raise InvalidFieldsError(problems)
        if (schema := self._schemas.get(model)) is not None:
            _raise(schema.problems(given, "input"))
        spec: dict[str, Any] = {"model": model, "region": region, "input": given}
        if job.params or job.failover is not Failover.ANY:
            spec |= _options(job)
        labels = labels_of(job.tags, job.metadata) if job.tags or job.metadata else None
        return AdmittedJob("generation", job.name, spec, 1, 1, model, labels, files)

    def _matrix(self, job: MatrixJob, tier: Tier | None) -> AdmittedJob:
        problems = list(json_problems(job.params, "params"))
        questions = collapse_questions(job, problems)
        regions = self._known_regions(job.regions, "regions", problems)
        targets = self._targets(job, regions, tier, problems)
        total = len(questions) * sum(len(chosen) for chosen in targets.values())
        problems += execution_problems(self._config, tier, total, "questions")
        found = durations({"params": job.params})
        problems += duration_problems(self._config, tier, targets, found)
        _raise(problems or list(misplaced_files(job.params, "params")))
        for model in targets:
            if (schema := self._schemas.get(model)) is not None:
                _raise(schema.prompt_problems(list(questions.values()), model))
        spec = {
            "questions": [{"id": name, "prompt": prompt} for name, prompt in questions.items()],
            "targets": [[model, chosen] for model, chosen in targets.items()],
            **_options(job),
        }
        return AdmittedJob("matrix", job.name, spec, 1, total, *_labelled(job, list(targets)))

    def _targets(
        self, job: MatrixJob, regions: Sequence[str], tier: Tier | None, problems: list[FieldProblem]
    ) -> dict[str, list[str]]:
        """Each model once, with the regions that it runs in."""
        targets: dict[str, list[str]] = {}
        for number, choice in enumerate(job.models):
            field = f"models[{number}]"
            model, wanted = choice if isinstance(choice, str) else choice.id, regions
            if isinstance(choice, ModelChoice):
                field = f"{field}.id"
                if choice.regions is not None:
                    wanted = self._known_regions(choice.regions, f"models[{number}].regions", problems)
            serving = self._serving.get(model, ())
            if not serving:
                problems.append(self._unknown_model(model, field))
            problems += model_problems(self._config, tier, model, field)
            needs = execution_needs(model, {}, job.params, self._chat_models)
            chosen = targets.setdefault(model, [])
            for region in wanted:
                if serving and region not in serving:
                    problems.append(_not_served(field, model, region, serving))
                elif region not in chosen:
                    chosen.append(region)
                    problems += self._capability_problems(model, [region], needs)
        return targets

    def _pipeline(self, job: PipelineJob, spread: int, tier: Tier | None) -> AdmittedJob:
        problems = [*json_problems(job.input, "input"), *json_problems(job.params, "params")]
        feature = self._config.features.get(job.feature)
        if feature is None:
            known = ", ".join(self._config.features) or "none"
            message = f"there is no feature {job.feature!r}; known are {known}"
            problems.append(FieldProblem(field="feature", message=message, code="unknown_feature"))
            raise InvalidFieldsError(problems)
        problems += feature_input_problems(feature, job.input)
        problems += duration_problems(self._config, tier, (), durations({"input": job.input}))
        problems += execution_problems(self._config, tier, len(feature.steps), "feature")
        models = [step.model for step in feature.steps]
        problems += duration_problems(self._config, tier, models, durations({"params": job.params}))
        steps = []
        for step in feature.steps:
            given = known_input(step, job.input)
            needs = execution_needs(step.model, given, job.params, self._chat_models)
            region = self._region_of(step.model, "region", job.region, spread, problems, needs=needs)
            problems += self._step_duration_problems(step, given, tier)
            problems += model_problems(self._config, tier, step.model, "feature")
            schema = self._schemas.get(step.model)
            if schema is not None and not problems and is_fully_known(step, given):
                problems += schema.problems(given, "input")
            steps.append(
                {
                    "name": step.name,
                    "model": step.model,
                    "region": region,
                    "attempts": step.attempts,
                    "input": step.input,
                }
            )
        _raise(problems or list(misplaced_files(job.params, "params")))
        files = named_files(job.input, "input", problems)
        _raise(problems)
        spec = {"feature": job.feature, "input": job.input, "steps": steps, **_options(job)}
        labelled = _labelled(job, list(dict.fromkeys(models)))
        return AdmittedJob("pipeline", job.name, spec, len(steps), len(steps), *labelled, files)

    def _step_duration_problems(
        self, step: StepConfig, given: Mapping[str, Any], tier: Tier | None
    ) -> Iterable[FieldProblem]:
        """A template may make a field of another name the duration; `input.duration` is checked already."""
        if given.get(DURATION) is None:
            return ()
        field, of_tier = (
            ("input.duration", None) if not step.input else (f"input ({step.name}.duration)", tier)
        )
        return duration_problems(self._config, of_tier, [step.model], {field: given[DURATION]})

    def _region_of(
        self,
        model: str,
        field: str,
        wanted: str | None,
        spread: int,
        problems: list[FieldProblem],
        *,
        needs: Needs,
    ) -> str | None:
        """The region of one execution; a problem is added when there is none."""
        serving = self._serving.get(model, ())
        if not serving:
            problems.append(self._unknown_model(model, field))
            return None
        if wanted is not None:
            named = [wanted]
            if wanted not in serving:
                named = self._known_regions([wanted], "region", problems, single=True)
            if not named:
                return None
            if named[0] not in serving:
                problems.append(_not_served("region", model, named[0], serving))
                return None
            serving = (named[0],)
        if needs:
            able = tuple(
                region for region in serving if unsupported(needs, self._able[model, region]) is None
            )
            if not able:
                problems += self._capability_problems(model, serving, needs)
                return None
            serving = able
        return serving[spread % len(serving)]

    def _capability_problems(
        self, model: str, regions: Sequence[str], needs: Needs
    ) -> Iterator[FieldProblem]:
        """If none of the model's backends in these regions is capable of what is needed."""
        able = [each for region in regions for each in self._able.get((model, region), ())]
        if (field := unsupported(needs, able)) is not None:
            message = f"no backend of {model} in {', '.join(regions)} supports it"
            yield FieldProblem(field=field, message=message, code=UNSUPPORTED_PARAMETER)

    def _unknown_model(self, model: str, field: str) -> FieldProblem:
        message = f"there is no model {model!r}; known are {', '.join(self._serving)}"
        return FieldProblem(field=field, message=message, code="unknown_model")

    def _known_regions(
        self, names: Sequence[str], field: str, problems: list[FieldProblem], *, single: bool = False
    ) -> list[str]:
        """Each region once, by its own name."""
        found: list[str] = []
        for number, name in enumerate(names):
            region = self._regions.get(name.casefold())
            if region is None:
                known = ", ".join(self._config.regions)
                message = f"there is no region {name!r}; known are {known}"
                where = field if single else f"{field}[{number}]"
                problem = FieldProblem(field=where, message=message, code="unknown_region")
                if problem not in problems:
                    problems.append(problem)
            elif region not in found:
                found.append(region)
        return found


def _raise(problems: Sequence[FieldProblem]) -> None:
    if problems:
        raise InvalidFieldsError(problems)


def _labelled(job: Submission, models: Sequence[str]) -> tuple[str | None, Mapping[str, Any] | None]:
    """The only model, or several among the labels."""
    if len(models) == 1:
        return models[0], labels_of(job.tags, job.metadata)
    return None, labels_of(job.tags, job.metadata, models=models)


def _options(job: Submission) -> dict[str, Any]:
    """Only values that differ from the default, to keep stored specs small."""
    options: dict[str, Any] = {}
    if job.params:
        options["params"] = job.params
    if job.failover is not Failover.ANY:
        options["failover"] = job.failover.value
    return options


def _not_served(field: str, model: str, region: str, serving: Sequence[str]) -> FieldProblem:
    message = f"{model} does not run in {region}; it runs in {', '.join(serving)}"
    return FieldProblem(field=field, message=message, code="not_served")
