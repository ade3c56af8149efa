"""What every dialect does: results, failures by their class, cancellation, timeouts, death of the router."""

import json
from itertools import count
from typing import Any

import pytest

from beacon_contracts.inference import InferenceState, InferenceView
from tests.conformance.dialects.cases import CASES, Case, config_of
from tests.fixtures.gpusim import Gpusim
from tests.fixtures.router import Router, start_router
from tests.fixtures.waiting import until, within_timeout

_numbers = count(1)


def new_id(case: Case) -> str:
    return f"{case.name}-{next(_numbers)}"


async def run(router: Router, case: Case, request_id: str | None = None, **fields: Any) -> InferenceView:
    return await router.infer(request_id or new_id(case), model=case.model, region=case.region, **fields)


async def begin(router: Router, case: Case, request_id: str, **fields: Any) -> None:
    answer = await router.submit(
        request_id, model=case.model, region=case.region, prefer="respond-async", **fields
    )
    assert answer.status_code == 202, answer.text


async def on_gpu(router: Router, request_id: str) -> InferenceView:
    """Once the router has seen it running; of a run at a provider, with its id."""

    async def found() -> InferenceView | None:
        view = await router.get(request_id)
        return view if view.state.on_gpu else None

    return await until(found, f"{request_id} runs")


async def outcomes(gpu: Gpusim, case: Case) -> list[str | None]:
    return [call["outcome"] for call in await gpu.ledger(model=case.model)]


async def test_a_result(router: Router, gpu: Gpusim, case: Case) -> None:
    view = await run(router, case, given={"prompt": "a red cat"})

    assert view.state is InferenceState.COMPLETED
    assert "a red cat" in str(view.output) or [file.content_type for file in view.files] == ["image/png"]
    assert (view.remote is not None) == case.remote
    assert await outcomes(gpu, case) == ["completed"]


async def test_an_empty_result_is_a_result(router: Router, gpu: Gpusim, case: Case) -> None:
    await gpu.add_fault(kind="empty", model=case.model, next=1)

    view = await run(router, case)

    assert view.state is InferenceState.COMPLETED
    assert view.output in ("", {"output": ""}, {})


@pytest.mark.parametrize("status", [429, 503])
async def test_a_refusal_is_retried(router: Router, gpu: Gpusim, case: Case, status: int) -> None:
    await gpu.add_fault(kind="error", status=status, model=case.model, next=1)

    view = await run(router, case)

    assert view.state is InferenceState.COMPLETED
    assert len(view.tries) == 2


@pytest.mark.parametrize(("status", "code"), [(400, "backend_refused"), (500, "backend_error")])
async def test_an_error_is_the_result(
    router: Router, gpu: Gpusim, case: Case, status: int, code: str
) -> None:
    await gpu.add_fault(kind="error", status=status, model=case.model, next=1)

    view = await run(router, case)

    assert view.failure is not None
    assert (view.failure.code, view.failure.retryable) == (code, False)
    assert await outcomes(gpu, case) == ["error"]


async def test_a_refused_key_is_not_charged(router: Router, gpu: Gpusim, case: Case) -> None:
    await gpu.add_fault(kind="error", status=401, model=case.model, next=1)

    await begin(router, case, request_id := new_id(case))

    async def held() -> bool:
        view = await router.get(request_id)
        return view.state is InferenceState.QUEUED and "credentials" in (view.waiting_for or "")

    await until(held, "it waits for the backend, with the cause")

    view = await router.get(request_id, "wait=60")
    assert view.state is InferenceState.COMPLETED
    assert len(view.tries) == 1


async def test_a_lost_answer(router: Router, gpu: Gpusim, case: Case) -> None:
    """A submission may have been accepted, so it is not repeated."""
    await gpu.add_fault(kind="reset", model=case.model, next=1)

    view = await run(router, case)

    if case.remote:
        assert view.failure is not None
        assert view.failure.code == "submission_unanswered"
        assert await outcomes(gpu, case) == ["reset"]
    else:
        assert view.state is InferenceState.COMPLETED
        assert await outcomes(gpu, case) == ["reset", "completed"]


@pytest.mark.parametrize("kind", ["wrong_content_type", "bad_json", "no_body"])
async def test_an_unreadable_answer_names_the_cause(
    router: Router, gpu: Gpusim, case: Case, kind: str
) -> None:
    await gpu.add_fault(kind=kind, model=case.model, next=1)

    view = await run(router, case)

    assert view.failure is not None
    assert view.failure.code == "bad_payload"
    assert "JSON" in view.failure.message or "text/html" in view.failure.message
    assert len(await gpu.ledger(model=case.model)) == 1


async def test_an_answer_without_an_end_is_cut_off(router: Router, gpu: Gpusim, case: Case) -> None:
    await gpu.add_fault(kind="endless", model=case.model, next=1)

    view = await run(router, case, timeout_s=60)

    assert view.failure is not None
    assert view.failure.code == "bad_payload"
    assert "longer than" in view.failure.message


async def test_a_cancelled_run_ends_at_its_backend(router: Router, gpu: Gpusim, case: Case) -> None:
    await gpu.hold(model=case.model, next=1)
    await begin(router, case, request_id := new_id(case))
    await gpu.wait_running(1)
    await on_gpu(router, request_id)

    await router.cancel(request_id)

    async def aborted() -> bool:
        return await outcomes(gpu, case) == ["aborted"]

    await until(aborted, "the run is aborted")
    assert (await router.get(request_id)).state is InferenceState.CANCELLED


async def test_a_run_that_hangs_is_timed_out_and_ended(router: Router, gpu: Gpusim, case: Case) -> None:
    await gpu.add_fault(kind="hang", model=case.model)

    view = await run(router, case, timeout_s=0.3)

    assert view.failure is not None
    assert view.failure.code in ("run_timeout", "load_timeout")

    async def aborted() -> bool:
        return set(await outcomes(gpu, case)) == {"aborted"}

    await until(aborted, "the runs are aborted")


async def test_the_death_of_a_router_repeats_no_run_that_has_an_id(gpu: Gpusim) -> None:
    await gpu.set_slots(len(CASES), loaded_models=len(CASES))
    await gpu.hold()
    config = config_of(CASES, gpu.url)
    ids = {case: new_id(case) for case in CASES}
    async with start_router(config) as first:
        for case, request_id in ids.items():
            await begin(first, case, request_id)
        await gpu.wait_running(len(CASES))
        remotes = {case: (await on_gpu(first, request_id)).remote for case, request_id in ids.items()}
        first.process.kill()
    async with start_router(config) as second:
        for case, request_id in ids.items():
            remote = remotes[case]
            await begin(
                second, case, request_id, **({} if remote is None else {"remote": remote.model_dump()})
            )
        await gpu.wait_running(len(CASES))
        await gpu.release()
        views = {case: await second.get(request_id, "wait=60") for case, request_id in ids.items()}

    assert {view.state for view in views.values()} == {InferenceState.COMPLETED}
    runs = {case.name: len(await gpu.ledger(model=case.model)) for case in CASES}
    assert runs == {case.name: 1 if case.remote else 2 for case in CASES}


async def test_a_batch_reports_the_progress_of_a_run(router: Router, gpu: Gpusim, case: Case) -> None:
    """Of a run at a provider, its id first and at once."""
    await gpu.hold(model=case.model, next=1)
    request = {
        "request_id": (request_id := new_id(case)),
        "model": case.model,
        "region": case.region,
        "input": {"prompt": "a cat"},
    }
    seen: list[dict[str, Any]] = []
    reported: set[str] = set()
    async with (
        within_timeout("the batch ends"),
        router.http.stream("POST", "/inference/batch", json={"requests": [request]}) as response,
    ):
        async for text in response.aiter_lines():
            line = json.loads(text)
            seen.append(line)
            progress = line["document"].get("progress") or {}
            reported |= {name for name, value in progress.items() if value is not None}
            if line["status"] == 102 and line["document"]["state"] == "running" and reported >= case.reports:
                await gpu.release()

    assert [line["request_id"] for line in seen] == [request_id] * len(seen)
    assert seen[0]["status"] == 102
    if case.remote:
        assert seen[0]["document"]["remote"]["backend"] == case.name
    assert seen[-1]["status"] == 200
    assert reported == case.reports
