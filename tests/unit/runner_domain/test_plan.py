import pytest

from beacon_contracts.inference import Failover
from beacon_contracts.jobs import ExecutionState
from beacon_runner.domain.execution.plan import PlanError, execution_keys, pending_executions, stage_plan
from tests.unit.runner_domain.factories import known, matrix_spec, pipeline_spec


def test_a_matrix_is_questions_by_models_by_regions_in_a_fixed_order() -> None:
    plan = stage_plan(matrix_spec(questions=2), 0, {})
    assert [(one.ordinal, one.item, one.model, one.region) for one in plan] == [
        (0, "q0", "llama", "US"),
        (1, "q0", "llama", "EU"),
        (2, "q1", "llama", "US"),
        (3, "q1", "llama", "EU"),
    ]
    assert plan[2].input == {"prompt": "why 1?"}


def test_a_generation_is_one_execution_with_its_options() -> None:
    spec = {
        "model": "flux",
        "region": "EU",
        "input": {"prompt": "cat"},
        "failover": "pinned",
        "params": {"n": 1},
    }
    (only,) = stage_plan(spec, 0, {})
    assert (only.model, only.region, only.failover, only.params) == ("flux", "EU", Failover.PINNED, {"n": 1})


def test_a_step_can_use_the_input_and_earlier_results() -> None:
    first = stage_plan(pipeline_spec(), 0, {})
    second = stage_plan(pipeline_spec(), 1, {"enhance": {"text": "a shining city"}})
    assert first[0].input == {"prompt": "a city"}
    assert second[0].input == {"prompt": "a shining city", "seed": 4}


def test_a_step_whose_reference_is_missing_cannot_be_planned_now_or_later() -> None:
    with pytest.raises(PlanError) as raised:
        stage_plan(pipeline_spec(), 1, {"enhance": {"other": 1}})
    assert raised.value.failure.retryable is False
    assert raised.value.failure.item == "draw"


def test_a_step_without_a_template_gets_the_job_s_own_input() -> None:
    spec = pipeline_spec()
    spec["steps"][0]["input"] = {}
    assert stage_plan(spec, 0, {})[0].input == {"prompt": "a city"}


def test_execution_keys_equal_those_of_the_plans() -> None:
    for spec, stages in ((matrix_spec(), 1), (pipeline_spec(), 2)):
        planned = [
            (stage, one.ordinal, one.item, one.model, one.region)
            for stage in range(stages)
            for one in stage_plan(spec, stage, {"enhance": {"text": "x"}})
        ]
        assert [(p.stage, p.ordinal, p.item, p.model, p.region) for p in execution_keys(spec)] == planned


def test_all_executions_are_pending_at_the_first_delivery() -> None:
    plan = stage_plan(matrix_spec(), 0, {})
    assert [(one.execution.ordinal, one.attempt) for one in pending_executions(plan, ())] == [
        (0, 1),
        (1, 1),
        (2, 1),
        (3, 1),
    ]


def test_an_interrupted_execution_continues_as_the_same_attempt() -> None:
    plan = stage_plan(matrix_spec(), 0, {})
    recorded = (
        known(0, ExecutionState.COMPLETED),
        known(1, ExecutionState.RUNNING, attempt=2),
        known(2, ExecutionState.PENDING, attempt=3),
        known(3, ExecutionState.FAILED),
    )
    assert [(one.execution.ordinal, one.attempt) for one in pending_executions(plan, recorded)] == [
        (1, 2),
        (2, 3),
    ]
