"""Rules for every dialect whose runs continue without a connection."""

from beacon_contracts.inference import InferenceState, RemoteRun
from tests.conformance.dialects.cases import REMOTE, Case, config_of
from tests.conformance.dialects.test_dialects import begin, new_id, on_gpu, outcomes, run
from tests.fixtures.gpusim import Gpusim
from tests.fixtures.router import Router, start_router
from tests.fixtures.waiting import until


async def named(router: Router, request_id: str) -> RemoteRun:
    async def found() -> RemoteRun | None:
        return (await router.get(request_id)).remote

    return await until(found, "the run is named")


async def begun(router: Router, case: Case) -> tuple[str, RemoteRun]:
    await begin(router, case, request_id := new_id(case))
    return request_id, await named(router, request_id)


async def test_a_router_that_stops_leaves_its_runs(gpu: Gpusim) -> None:
    await gpu.set_slots(len(REMOTE), loaded_models=len(REMOTE))
    await gpu.hold()
    config = config_of(REMOTE, gpu.url)
    async with start_router(config) as first:
        remotes = {case: (await begun(first, case)) for case in REMOTE}
    assert [call["outcome"] for call in await gpu.ledger()] == [None] * len(REMOTE)

    async with start_router(config) as second:
        for case, (request_id, remote) in remotes.items():
            await begin(second, case, request_id, remote=remote.model_dump())
        await gpu.release()
        views = [await second.get(request_id, "wait=60") for request_id, _ in remotes.values()]

    assert {view.state for view in views} == {InferenceState.COMPLETED}
    assert [call["outcome"] for call in await gpu.ledger()] == ["completed"] * len(REMOTE)


async def test_a_run_that_is_unknown_at_its_provider_is_run_anew(
    router: Router, gpu: Gpusim, remote_case: Case
) -> None:
    gone = RemoteRun(
        backend=remote_case.name, run_id="owner/app/requests/gone" if "fal" in remote_case.name else "gone"
    )
    view = await run(router, remote_case, remote=gone.model_dump())

    assert view.state is InferenceState.COMPLETED
    assert len(view.tries) == 1
    assert view.remote is not None
    assert view.remote != gone
    assert await outcomes(gpu, remote_case) == ["completed"]


async def test_a_run_that_ended_meanwhile_is_collected(
    router: Router, gpu: Gpusim, remote_case: Case
) -> None:
    first = await run(router, remote_case, given={"prompt": "one"})
    assert first.remote is not None

    second = await run(router, remote_case, given={"prompt": "one"}, remote=first.remote.model_dump())

    assert [file.sha256 for file in second.files] == [file.sha256 for file in first.files]
    assert second.output == first.output or second.files
    assert len(await gpu.ledger(model=remote_case.model)) == 1


async def test_continued_runs_count_against_the_slots(router: Router, gpu: Gpusim, remote_case: Case) -> None:
    """Two slots: both are taken by runs that are in progress at the provider."""
    await gpu.hold(model=remote_case.model)
    ids = [new_id(remote_case), new_id(remote_case)]
    for request_id in ids:
        await begin(router, remote_case, request_id)
    remotes = [await named(router, request_id) for request_id in ids]
    for number, remote in enumerate(remotes):
        await begin(router, remote_case, f"{ids[number]}-again", remote=remote.model_dump())

    view = await router.get(f"{ids[0]}-again")
    assert view.state is InferenceState.QUEUED
    assert view.remote == remotes[0]
    await gpu.release()
    for request_id in ids:
        assert (await router.get(f"{request_id}-again", "wait=60")).state is InferenceState.COMPLETED
    assert len(await gpu.ledger(model=remote_case.model)) == 2


async def test_a_run_that_waits_at_its_provider_is_queued_and_not_timed_out(
    router: Router, gpu: Gpusim, remote_case: Case
) -> None:
    await gpu.set_slots(1)
    await gpu.hold(model=remote_case.model, next=1)
    ids = [new_id(remote_case), new_id(remote_case)]
    await begin(router, remote_case, ids[0])
    await on_gpu(router, ids[0])
    await begin(router, remote_case, ids[1], timeout_s=0.2)
    await named(router, ids[1])

    view = await router.get(ids[1])
    assert view.state is InferenceState.QUEUED
    assert remote_case.name in (view.waiting_for or "")
    await gpu.release()
    ended = await router.get(ids[1], "wait=60")
    assert (ended.state, len(ended.tries)) == (InferenceState.COMPLETED, 1)


async def test_a_run_of_an_unknown_inference_is_cancelled_by_its_id(router: Router, gpu: Gpusim) -> None:
    await gpu.set_slots(len(REMOTE), loaded_models=len(REMOTE))
    await gpu.hold()
    async with start_router(config_of(REMOTE, gpu.url)) as first:
        remotes = [(await begun(first, case)) for case in REMOTE]
        first.process.kill()

    for request_id, remote in remotes * 2:
        answer = await router.cancel(request_id, backend=remote.backend, run_id=remote.run_id)
        assert answer.status_code == 204

    assert [call["outcome"] for call in await gpu.ledger()] == ["aborted"] * len(REMOTE)


async def test_a_failure_at_the_provider_is_the_result(
    router: Router, gpu: Gpusim, remote_case: Case
) -> None:
    await gpu.add_fault(kind="error", status=500, model=remote_case.model, after_s=0.05, next=1)

    view = await run(router, remote_case)

    assert view.failure is not None
    assert view.failure.code == "backend_error"
    assert view.failure.message.endswith("the model has failed")
    assert view.remote is None
