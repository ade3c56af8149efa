"""The simulated GPU, step by step: slots, loads, eviction, faults and the ledger."""

import math
from random import Random

import pytest

from beacon_gpusim.core.calls import Call, CallLedger, CallOutcome
from beacon_gpusim.core.durations import Constant, DurationModel, ModelDurations
from beacon_gpusim.core.faults import Fault, FaultKind, FaultRules
from beacon_gpusim.core.gpu import Effect, Gpu, StartLoad, StartRun
from beacon_gpusim.core.memory import ModelMemory

LOAD_S, RUN_S = 10.0, 2.0


def make_gpu(*, slots: int = 4, loaded_models: int = 1, load_s: float = LOAD_S, run_s: float = RUN_S) -> Gpu:
    default = ModelDurations(Constant(load_s), Constant(run_s))
    return Gpu(
        region="EU",
        slots=slots,
        memory=ModelMemory(loaded_models),
        durations=DurationModel({}, default=default, scale=1.0, random=Random(1)),
        faults=FaultRules(Random(1)),
        ledger=CallLedger(1000),
    )


def arrive(gpu: Gpu, model: str, now: float = 0.0) -> tuple[Call, list[Effect]]:
    return gpu.arrive(request_id=f"{model}@{now}", dialect="modal", model=model, now=now)


def warm(gpu: Gpu, *models: str) -> None:
    for model in models:
        call, _ = arrive(gpu, model)
        effects = gpu.load_done(model, 0.0)
        assert effects == [StartRun(call, RUN_S)]
        gpu.finish(call, CallOutcome.COMPLETED, 0.0)


def test_a_cold_model_loads_and_then_runs() -> None:
    gpu = make_gpu()
    call, effects = arrive(gpu, "a", 100.0)
    assert effects == [StartLoad("a", LOAD_S)]
    assert gpu.load_done("a", 110.0) == [StartRun(call, RUN_S)]
    assert gpu.finish(call, CallOutcome.COMPLETED, 112.0) == []
    assert (call.load_s, call.run_s, call.ended, call.outcome) == (10.0, 2.0, 112.0, CallOutcome.COMPLETED)


def test_a_loaded_model_runs_at_once() -> None:
    gpu = make_gpu()
    warm(gpu, "a")
    call, effects = arrive(gpu, "a", 5.0)
    assert effects == [StartRun(call, RUN_S)]
    assert call.load_s == 0.0


def test_calls_for_a_loading_model_wait_for_the_same_load() -> None:
    gpu = make_gpu()
    first, _ = arrive(gpu, "a", 0.0)
    second, effects = arrive(gpu, "a", 4.0)
    assert effects == []
    assert gpu.load_done("a", 10.0) == [StartRun(first, RUN_S), StartRun(second, RUN_S)]
    assert (first.load_s, second.load_s) == (10.0, 6.0)
    assert gpu.stats.loads == {"a": 1}


def test_a_full_gpu_refuses_and_counts_the_excess() -> None:
    gpu = make_gpu(slots=2)
    arrive(gpu, "a")
    arrive(gpu, "a")
    refused, effects = arrive(gpu, "a", 3.0)
    assert effects == []
    assert (refused.outcome, refused.ended, refused.started) == (CallOutcome.REFUSED, 3.0, None)
    assert gpu.stats.excess == 1
    assert gpu.stats.max_concurrent == 2
    assert len(gpu.ledger) == 3


def test_a_slot_is_free_the_moment_a_call_ends() -> None:
    gpu = make_gpu(slots=1)
    warm(gpu, "a")
    call, _ = arrive(gpu, "a")
    gpu.finish(call, CallOutcome.ABORTED, 0.5)
    assert call.run_s == 0.5
    again, _ = arrive(gpu, "a", 0.5)
    assert again.outcome is None


def test_finish_twice_frees_one_slot() -> None:
    gpu = make_gpu(slots=2)
    warm(gpu, "a")
    first, _ = arrive(gpu, "a")
    arrive(gpu, "a")
    gpu.finish(first, CallOutcome.ABORTED, 1.0)
    gpu.finish(first, CallOutcome.COMPLETED, 2.0)
    assert len(gpu.held) == 1
    assert (first.outcome, first.ended) == (CallOutcome.ABORTED, 1.0)


def test_the_least_recently_used_idle_model_makes_room() -> None:
    gpu = make_gpu(loaded_models=2)
    warm(gpu, "a", "b")
    call, _ = arrive(gpu, "a", 1.0)
    gpu.finish(call, CallOutcome.COMPLETED, 2.0)
    arrive(gpu, "c", 3.0)
    assert list(gpu.memory.ready) == ["a"]
    assert gpu.memory.loading == {"c"}
    assert gpu.memory.evictions == 1


def test_a_model_in_use_is_not_evicted_and_the_other_waits_for_it() -> None:
    gpu = make_gpu()
    warm(gpu, "a")
    busy, _ = arrive(gpu, "a", 0.0)
    other, effects = arrive(gpu, "b", 1.0)
    assert effects == []
    assert list(gpu.memory.ready) == ["a"]
    assert gpu.finish(busy, CallOutcome.COMPLETED, 2.0) == [StartLoad("b", LOAD_S)]
    assert gpu.load_done("b", 12.0) == [StartRun(other, RUN_S)]
    assert other.load_s == 11.0


def test_a_busy_model_does_not_starve_those_that_wait_for_memory() -> None:
    gpu = make_gpu()
    warm(gpu, "a")
    busy, _ = arrive(gpu, "a", 0.0)
    waiting, _ = arrive(gpu, "b", 1.0)
    late, effects = arrive(gpu, "a", 1.5)
    assert effects == [], "a later call for the loaded model queues behind the one that waits"
    assert gpu.finish(busy, CallOutcome.COMPLETED, 2.0) == [StartLoad("b", LOAD_S)]
    assert gpu.load_done("b", 12.0) == [StartRun(waiting, RUN_S)]
    assert gpu.finish(waiting, CallOutcome.COMPLETED, 14.0) == [StartLoad("a", LOAD_S)]
    assert gpu.load_done("a", 24.0) == [StartRun(late, RUN_S)]


def test_an_aborted_waiting_call_does_not_block_later_ones() -> None:
    gpu = make_gpu()
    warm(gpu, "a")
    arrive(gpu, "a", 0.0)
    waiting, _ = arrive(gpu, "b", 1.0)
    behind, _ = arrive(gpu, "a", 1.5)
    assert gpu.finish(waiting, CallOutcome.ABORTED, 1.6) == [StartRun(behind, RUN_S)]
    assert waiting.started is None


def test_a_load_without_waiting_calls_still_completes() -> None:
    gpu = make_gpu()
    lonely, _ = arrive(gpu, "a", 0.0)
    gpu.finish(lonely, CallOutcome.ABORTED, 1.0)
    other, _ = arrive(gpu, "b", 2.0)
    assert gpu.load_done("a", 10.0) == [StartLoad("b", LOAD_S)]
    assert gpu.load_done("b", 20.0) == [StartRun(other, RUN_S)]


def test_a_load_of_no_time_starts_the_run_at_once() -> None:
    gpu = make_gpu(load_s=0, run_s=0)
    call, effects = arrive(gpu, "a")
    assert effects == [StartRun(call, 0.0)]
    assert gpu.stats.loads == {"a": 1}


@pytest.mark.parametrize("kind", [FaultKind.ERROR, FaultKind.CRASH, FaultKind.RESET])
def test_an_immediate_fault_holds_a_slot_without_a_load(kind: FaultKind) -> None:
    gpu = make_gpu()
    gpu.faults.add(Fault(kind))
    call, effects = arrive(gpu, "a")
    assert effects == []
    assert call.fault is not None
    assert gpu.held == (call,)
    assert gpu.memory.loading == set()


@pytest.mark.parametrize("fault", [Fault(FaultKind.HANG), Fault(FaultKind.CRASH, after_s=3.0)])
def test_hung_and_faulty_runs_never_complete(fault: Fault) -> None:
    gpu = make_gpu()
    warm(gpu, "a")
    gpu.faults.add(fault)
    call, effects = arrive(gpu, "a")
    assert effects == [StartRun(call, math.inf)]


def test_slow_faults_add_to_load_or_run() -> None:
    gpu = make_gpu()
    warm(gpu, "a")
    gpu.faults.add(Fault(FaultKind.SLOW_START, extra_s=30.0, next_n=1))
    gpu.faults.add(Fault(FaultKind.SLOW_RUN, extra_s=60.0, next_n=1))
    slow_start, first = arrive(gpu, "a", 0.0)
    slow_run, second = arrive(gpu, "a", 0.0)
    assert (first, second) == ([StartRun(slow_start, 32.0)], [StartRun(slow_run, 62.0)])
    gpu.finish(slow_start, CallOutcome.COMPLETED, 32.0)
    gpu.finish(slow_run, CallOutcome.COMPLETED, 62.0)
    assert (slow_start.load_s, slow_start.run_s) == (30.0, 2.0)
    assert (slow_run.load_s, slow_run.run_s) == (0.0, 62.0)


def test_a_slow_start_that_is_aborted_has_not_run() -> None:
    gpu = make_gpu()
    warm(gpu, "a")
    gpu.faults.add(Fault(FaultKind.SLOW_START, extra_s=30.0))
    call, _ = arrive(gpu, "a", 0.0)
    gpu.finish(call, CallOutcome.ABORTED, 5.0)
    assert (call.load_s, call.run_s) == (5.0, 0.0)


def test_retry_after_is_when_the_next_run_ends() -> None:
    gpu = make_gpu(slots=1, run_s=7.3)
    call, _ = arrive(gpu, "a", 0.0)
    assert gpu.retry_after_s(0.0) == 1, "unknown while the model loads"
    gpu.load_done("a", 10.0)
    assert call.started == 10.0
    assert gpu.retry_after_s(10.0) == 8
    assert gpu.retry_after_s(17.0) == 1


def test_a_changed_number_of_slots_applies_to_the_next_call() -> None:
    gpu = make_gpu(slots=1)
    arrive(gpu, "a")
    gpu.slots = 2
    assert arrive(gpu, "a")[0].outcome is None
    gpu.slots = 1
    assert arrive(gpu, "a")[0].outcome is CallOutcome.REFUSED
    assert len(gpu.held) == 2


def test_the_ledger_is_bounded_and_keeps_running_calls() -> None:
    ledger = CallLedger(3)
    calls = [Call(n, f"r{n}", "modal", "ab"[n % 2], "EU", float(n), 1) for n in range(5)]
    for call in calls:
        ledger.add(call)
    assert list(ledger.select()) == calls[2:]
    assert list(ledger.select(model="a")) == [calls[2], calls[4]]
    assert list(ledger.select(since=3.0, model="b")) == [calls[3]]
    assert list(ledger.select(request_id="r4")) == [calls[4]]
    calls[2].outcome = calls[3].outcome = CallOutcome.COMPLETED
    ledger.clear()
    assert list(ledger.select()) == [calls[4]]


def test_the_representation_shows_the_state() -> None:
    gpu = make_gpu(slots=2)
    warm(gpu, "a")
    arrive(gpu, "a")
    assert repr(gpu) == (
        "GPU EU: 1 of 2 slots held, 0 wait for memory; memory for 1: a (in use by 1); loading nothing"
    )


def test_a_call_held_during_its_load_runs_after_the_release() -> None:
    gpu = make_gpu()
    gpu.faults.add(Fault(FaultKind.HOLD))
    call, _ = arrive(gpu, "a", 0.0)
    assert gpu.release() == []
    assert gpu.load_done("a", LOAD_S) == [StartRun(call, RUN_S)]
