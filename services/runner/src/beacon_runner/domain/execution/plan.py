"""Which executions a stage consists of: a pure function of the job's spec, the same on every delivery."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from beacon_config.features import INPUT
from beacon_contracts.failures import Failure, FailureStage
from beacon_contracts.ids import FileId
from beacon_contracts.inference import Failover, RemoteRun
from beacon_contracts.jobs import ExecutionState
from beacon_runner.domain.execution.stage_result import ClaimedJob, PlannedExecution, RecordedExecution
from beacon_runner.domain.execution.template import MissingReferenceError, render
from beacon_runner.domain.files.file_references import files_in

GENERATION_ITEM = "generation"
_NO_FILES: Mapping[FileId, str] = MappingProxyType({})
_PLAIN = frozenset({str, int, float, bool, type(None)})  # values that name no file


class PlanError(Exception):
    """The stage cannot be planned, now or later; `failure` has the reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class ExecutionKey(NamedTuple):
    """An execution's name inside its job, known before anything is rendered or run."""

    stage: int
    ordinal: int
    item: str
    model: str
    region: str


class PendingExecution(NamedTuple):
    """An execution that has to run now, and the number of its attempt.

    `following`: how many others are sent one after another when it ends. `remote`: a run of this attempt that
    may go on at its backend.
    """

    execution: PlannedExecution
    attempt: int
    following: int = 0
    remote: RemoteRun | None = None


def stage_plan(
    spec: Mapping[str, Any], stage: int, context: Mapping[str, Any]
) -> tuple[PlannedExecution, ...]:
    """Everything that runs in the stage, in the order of the ordinals."""
    if "steps" in spec:
        return (_step_execution(spec, stage, context),)
    failover = Failover(spec.get("failover") or Failover.ANY)
    params = spec.get("params", {})
    if "questions" in spec:
        prompts = {question["id"]: question["prompt"] for question in spec["questions"]}
        return tuple(
            PlannedExecution(
                key.ordinal,
                key.item,
                key.model,
                key.region,
                failover,
                {"prompt": prompts[key.item]},
                params,
            )
            for key in _matrix_keys(spec)
        )
    return (
        PlannedExecution(0, GENERATION_ITEM, spec["model"], spec["region"], failover, spec["input"], params),
    )


def files_of_stage(job: ClaimedJob) -> Mapping[FileId, str]:
    """The files that the inputs of the job's stage name, with the texts. Prompts of a matrix name none."""
    if "steps" in job.spec:
        with suppress(PlanError):  # the stage cannot run, and needs no files
            return files_in(_step_execution(job.spec, job.stage, job.context).input)
    elif "model" in job.spec:
        given = job.spec["input"]
        if "file" in given or not _PLAIN.issuperset(map(type, given.values())):
            return files_in(given)
    return _NO_FILES


def refuse_file(job: ClaimedJob, text: str) -> NoReturn:
    """The stage names a file that the job cannot use."""
    failure = Failure(
        code="missing_file",
        stage=FailureStage.ADMISSION,
        retryable=False,
        message=f"{text} does not exist, or is neither an input nor an output of this job",
        item=step_name(job.spec, job.stage) or GENERATION_ITEM,
    )
    raise PlanError(failure)


def execution_keys(spec: Mapping[str, Any]) -> Iterator[ExecutionKey]:
    """Every execution of every stage by name."""
    if "steps" in spec:
        for stage, step in enumerate(spec["steps"]):
            yield ExecutionKey(stage, 0, step["name"], step["model"], step["region"])
    elif "questions" in spec:
        yield from _matrix_keys(spec)
    else:
        yield ExecutionKey(0, 0, GENERATION_ITEM, spec["model"], spec["region"])


def first_target(spec: Mapping[str, Any], stage: int = 0) -> tuple[str, str]:
    """The model and the region of the first execution of a stage."""
    if "model" in spec:
        return spec["model"], spec["region"]
    first = next(key for key in execution_keys(spec) if key.stage == stage)
    return first.model, first.region


def unfinished(spec: Mapping[str, Any], stage: int, ended_ordinals: AbstractSet[int]) -> list[ExecutionKey]:
    """The executions of a stage without those that have ended."""
    return [key for key in execution_keys(spec) if key.stage == stage and key.ordinal not in ended_ordinals]


def pending_executions(
    plan: Sequence[PlannedExecution], recorded_executions: Sequence[RecordedExecution]
) -> list[PendingExecution]:
    """The executions that have not ended. An interrupted one continues as the same attempt."""
    recorded = {one.ordinal: one for one in recorded_executions}
    pending = []
    for execution in plan:
        known = recorded.get(execution.ordinal)
        if known is None:
            pending.append(PendingExecution(execution, 1))
        elif known.state not in ENDED:
            pending.append(PendingExecution(execution, known.attempt, remote=known.remote))
    return pending


ENDED = frozenset({ExecutionState.COMPLETED, ExecutionState.FAILED, ExecutionState.CANCELLED})


def step_name(spec: Mapping[str, Any], stage: int) -> str | None:
    """The name of a pipeline's step; other jobs have none."""
    return str(spec["steps"][stage]["name"]) if "steps" in spec else None


def _matrix_keys(spec: Mapping[str, Any]) -> Iterator[ExecutionKey]:
    ordinal = 0
    for question in spec["questions"]:
        for model, regions in spec["targets"]:
            for region in regions:
                yield ExecutionKey(0, ordinal, question["id"], model, region)
                ordinal += 1


def _step_execution(spec: Mapping[str, Any], stage: int, context: Mapping[str, Any]) -> PlannedExecution:
    step = spec["steps"][stage]
    names = {INPUT: spec["input"], **context}
    try:
        filled = render(step["input"], names) if step["input"] else dict(spec["input"])
    except MissingReferenceError as error:
        failure = Failure(
            code="missing_result",
            stage=FailureStage.ADMISSION,
            retryable=False,
            message=str(error),
            item=step["name"],
        )
        raise PlanError(failure) from error
    return PlannedExecution(
        0,
        step["name"],
        step["model"],
        step["region"],
        Failover(spec.get("failover") or Failover.ANY),
        filled,
        spec.get("params", {}),
    )
