"""Runs at providers: named, waiting, continued by id, cancelled there, left there by a router that stops."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from beacon_contracts.inference import InferenceState, RemoteRun, RunProgress
from beacon_router.backends import BackendResult
from beacon_router.backends.errors import run_unknown
from beacon_router.backends.types import BackendError
from beacon_router.scheduling import BackendSpec, ModelSpec, RequestId
from beacon_router.service.errors import UnknownInferenceError
from beacon_router.service.inference import InferenceSpec
from tests.unit.router.dispatch_harness import (
    RUN_S,
    DispatchHarness,
    ManualBackend,
    dispatch_harness,
    failure,
    topology,
)

RUN = RemoteRun(backend="us", run_id="run-1")


@asynccontextmanager
async def remote_harness() -> AsyncIterator[tuple[DispatchHarness, ManualBackend]]:
    async with dispatch_harness() as harness:
        backend = harness.backends["us"]
        backend.remote = backend
        yield harness, backend


def continued(
    harness: DispatchHarness, request: str, remote: RemoteRun = RUN, *, start_by: float | None = None
) -> None:
    spec = InferenceSpec(RequestId(request), "m", "US", 4, b"{}", remote=remote, start_by=start_by)
    harness.service.submit(spec)


def alive(error: BackendError) -> BackendError:
    error.remote_alive = True
    return error


async def test_a_named_run_is_in_the_inference_at_once() -> None:
    async with remote_harness() as (harness, backend):
        inference = harness.submit("a")
        await harness.settle()
        reported: list[RemoteRun | None] = []
        inference.observers.append(lambda one: reported.append(one.remote))

        backend.open[0].observer.named("run-1")

        assert reported == [RUN]


async def test_a_run_that_waits_at_its_provider_is_not_timed_out() -> None:
    async with remote_harness() as (harness, backend):
        inference = harness.submit("a", timeout_s=RUN_S)
        await harness.settle()
        backend.open[0].observer.submitting()
        await harness.clock.advance(10_000)
        assert backend.open

        backend.open[0].observer.running()
        await harness.clock.advance(1_000)
        assert inference.attempts[0].failure is not None
        assert inference.attempts[0].failure.code == "load_timeout"


async def test_the_run_time_counts_from_the_moment_it_runs() -> None:
    async with remote_harness() as (harness, backend):
        inference = harness.submit("a")
        await harness.settle()
        backend.open[0].observer.submitting()
        await harness.clock.advance(500)
        backend.open[0].observer.running()
        await harness.clock.advance(7)
        await harness.answer("us")

        assert (inference.attempts[0].queued_s, inference.attempts[0].run_s) == (500, 7)


async def test_start_by_ends_a_run_that_waits_at_its_provider() -> None:
    async with remote_harness() as (harness, backend):
        inference = harness.submit("a", start_by=harness.clock.now() + 60)
        await harness.settle()
        backend.open[0].observer.submitting()
        await harness.clock.advance(61)

        assert inference.failure is not None
        assert inference.failure.code == "start_by_passed"
        assert backend.calls[0].aborted


async def test_a_request_with_a_run_continues_it_on_its_backend() -> None:
    async with remote_harness() as (harness, backend):
        continued(harness, "a")
        await harness.settle()

        assert [held.observer.run_id for held in backend.open] == ["run-1"]


async def test_a_continued_run_takes_the_next_slot_of_its_backend_before_all_others() -> None:
    async with remote_harness() as (harness, backend):
        harness.submit("running")
        harness.submit("paid", front=True)
        continued(harness, "a")
        await harness.settle()
        assert harness.running("us") == ["running"]
        assert harness.running("eu") == []

        await harness.answer("us")

        assert harness.running("us") == ["a"]
        assert backend.open[0].observer.run_id == "run-1"


async def test_a_run_that_waits_to_be_continued_outlives_its_model() -> None:
    """The backend serves only another model by then, or nothing at all."""
    serves_n = BackendSpec("us", "US", frozenset({"n"}), slots=1)
    elsewhere = BackendSpec("eu", "EU", frozenset({"n"}), slots=1)
    for left in ((serves_n, elsewhere), (elsewhere,)):
        async with remote_harness() as (harness, backend):
            harness.submit("running")
            continued(harness, "a")
            await harness.settle()
            harness.adopt(topology(left, models=[ModelSpec("n")]))
            scheduler, now = harness.service.scheduler, harness.clock.now()
            assert scheduler.why(now, RequestId("a")) is not None
            assert left == (elsewhere,) or scheduler.eta(now, RequestId("a")) is not None
            await harness.answer("us")
            assert harness.running("us") == ["a"]
            assert backend.open[0].observer.run_id == "run-1"
            await harness.answer("us")
            assert harness.state("a") is InferenceState.COMPLETED


async def test_a_continued_run_is_not_refused_by_its_start_by() -> None:
    async with remote_harness() as (harness, _):
        continued(harness, "a", start_by=harness.clock.now() - 1)
        await harness.settle()

        assert harness.running("us") == ["a"]


async def test_a_run_of_a_backend_that_is_gone_is_run_anew() -> None:
    """Nothing can cancel the run that was started there: the log names it."""
    gone = RemoteRun(backend="gone", run_id="run-1")
    async with remote_harness() as (harness, backend):
        with capture_logs() as lines:
            continued(harness, "a", gone)
            with pytest.raises(UnknownInferenceError):
                await harness.service.cancel_remote(gone)
        await harness.settle()

        assert harness.get("a").remote is None
        assert [held.observer.run_id for held in backend.open] == [None]
    named = [(line["event"], line["backend"], line["run_id"]) for line in lines]
    assert named == [("remote_run_not_cancelled", "gone", "run-1")] * 2


async def test_a_run_that_its_provider_does_not_know_is_run_anew_without_a_charge() -> None:
    async with remote_harness() as (harness, backend):
        continued(harness, "a")
        await harness.fail("us", run_unknown())

        assert harness.running("us") == ["a"]
        assert backend.open[0].observer.run_id is None
        assert harness.get("a").attempts == ()


async def test_a_lost_connection_to_a_run_is_followed_by_continuing_it() -> None:
    async with remote_harness() as (harness, backend):
        harness.submit("a")
        await harness.settle()
        backend.open[0].observer.named("run-1")
        await harness.fail("us", alive(failure()))
        await harness.clock.advance(3)

        assert [held.observer.run_id for held in backend.open] == ["run-1"]


async def test_a_failed_run_is_not_continued_by_the_next_attempt() -> None:
    async with remote_harness() as (harness, backend):
        harness.submit("a", pinned=True)
        await harness.settle()
        backend.open[0].observer.named("run-1")
        await harness.fail("us", failure())
        await harness.clock.advance(3)

        assert [held.observer.run_id for held in backend.open] == [None]


async def test_a_run_that_waits_to_be_continued_is_cancelled_at_its_provider() -> None:
    async with remote_harness() as (harness, backend):
        harness.submit("running")
        continued(harness, "a")
        harness.service.cancel(RequestId("a"))
        await harness.settle()

        assert backend.cancelled == ["run-1"]
        assert harness.state("a") is InferenceState.CANCELLED


async def test_a_continued_run_is_cancelled_before_its_backend_was_called() -> None:
    async with remote_harness() as (harness, backend):
        continued(harness, "a")
        harness.service.cancel(RequestId("a"))
        await harness.settle()

        assert backend.calls == []
        assert backend.cancelled == ["run-1"]


async def test_a_router_that_stops_leaves_a_run_that_it_was_about_to_continue() -> None:
    async with remote_harness() as (harness, backend):
        continued(harness, "a")

        await harness.service.drain(0.0)

        assert backend.cancelled == []


async def test_a_cancel_that_fails_is_repeated() -> None:
    async with remote_harness() as (harness, backend):
        backend.cancel_errors = [failure(), failure()]
        harness.submit("a")
        await harness.settle()
        backend.open[0].observer.not_cancelled("run-1")
        await harness.settle()
        assert backend.cancelled == []

        await harness.clock.advance(3.1)

        assert backend.cancelled == ["run-1"]


async def test_a_run_of_an_unknown_inference_is_cancelled_by_its_id() -> None:
    async with remote_harness() as (harness, backend):
        await harness.service.cancel_remote(RUN)

        assert backend.cancelled == ["run-1"]


async def test_a_router_that_stops_leaves_runs_at_their_provider() -> None:
    async with remote_harness() as (harness, backend):
        inference = harness.submit("a")
        continued(harness, "b")
        await harness.settle()
        backend.open[0].observer.named("run-1")

        await harness.service.drain(0.0)

        assert [held.observer.detached for held in backend.calls] == [True]
        assert inference.remote == RUN
        assert backend.cancelled == []


async def test_a_stopping_router_cancels_submissions_without_an_id() -> None:
    async with remote_harness() as (harness, backend):
        harness.submit("a")
        await harness.settle()

        await harness.service.drain(0.0)

        assert [held.observer.detached for held in backend.calls] == [False]


async def test_a_run_whose_share_was_lost_is_continued_and_not_cancelled() -> None:
    """Another router may follow it by now."""
    async with remote_harness() as (harness, backend):
        inference = harness.submit("a")
        await harness.settle()
        backend.open[0].observer.named("run-1")
        assert inference.run is not None

        harness.service.runs.requeue(inference.run)
        harness.service.runs.dispatch_ready()
        await harness.settle()

        assert backend.calls[0].observer.detached
        assert [held.observer.run_id for held in backend.open] == ["run-1"]
        assert backend.cancelled == []


async def test_an_ended_inference_keeps_no_preview() -> None:
    """A preview is larger than most results, and is not counted as one."""
    preview = "data:image/png;base64,iVBORw0KGgo="
    async with remote_harness() as (harness, backend):
        for end in (BackendResult(b'"done"'), None):
            inference = harness.submit(f"ends with {end}")
            await harness.settle()
            backend.open[0].observer.progressed(RunProgress(percent=90.0, preview=preview))
            if end is None:
                harness.service.cancel(inference.id)
            else:
                backend.open[0].end(end)
            await harness.settle()

            assert inference.done
            assert inference.progress in (None, RunProgress(percent=90.0))


async def test_progress_is_reported_when_it_changes() -> None:
    async with remote_harness() as (harness, backend):
        inference = harness.submit("a")
        await harness.settle()
        reported: list[RunProgress | None] = []
        inference.observers.append(lambda one: reported.append(one.progress))
        first, second = RunProgress(percent=10.0), RunProgress(percent=20.0)

        for progress in (first, first, second):
            backend.open[0].observer.progressed(progress)

        assert reported == [first, second]
