"""The router's client over real sockets: long polls, restarts, full routers, cut connections."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from beacon_contracts.inference import InferenceRequest, InferenceState, RemoteRun, StepMeta
from beacon_lifecycle import ManualClock
from beacon_runner.ports.router import RouterBusy, RouterRefused, RouterUnreachable
from beacon_runner.router_client import RouterClient, RouterTimeouts
from tests.integration.runner_router_client.router_stub import RouterStub, cut, refuse, router_stub, view_of

ONE_SECOND_WAITS = RouterTimeouts(wait_s=1, exchange_s=60.0, connect_s=60.0, short_s=60.0, max_tries=4)


def request(request_id: str = "exe_a.0.0", region: str = "US") -> InferenceRequest:
    return InferenceRequest(
        request_id=request_id,
        model="flux",
        region=region,
        input={"prompt": "a cat", "nothing": None, "deep": {"nothing": None}},
        params={"temperature": 0.1},
        tier="premium",
        fence=3,
        meta=StepMeta(job_id="job_a"),
    )


@pytest.fixture
async def router() -> AsyncIterator[RouterStub]:
    async with router_stub() as one:
        yield one


@pytest.fixture
async def other() -> AsyncIterator[RouterStub]:
    async with router_stub() as one:
        yield one


def closed_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


async def test_a_quick_result_is_in_the_first_response(router: RouterStub) -> None:
    async with RouterClient([router.url], "secret") as client, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(client.infer(request()))
        await router.until(lambda: "exe_a.0.0" in router.known)
        await router.finish("exe_a.0.0", actual_region="EU", backend="eu-1")
        view = await running
    assert view.state is InferenceState.COMPLETED
    assert (view.output, view.actual_region, view.backend) == ({"text": "done"}, "EU", "eu-1")
    assert router.calls == ["send exe_a.0.0"]


async def test_the_request_arrives_complete(router: RouterStub) -> None:
    async with RouterClient([router.url], "secret") as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(client.infer(request()))
        await router.until(lambda: "exe_a.0.0" in router.known)
        await router.finish("exe_a.0.0")
    assert InferenceRequest.model_validate(router.bodies[0]) == request()
    assert router.bodies[0]["input"] == {"prompt": "a cat", "nothing": None, "deep": {"nothing": None}}
    sent = router.headers[0]
    assert sent["authorization"] == "Bearer secret"
    assert sent["prefer"] == "wait=25"


async def test_a_long_wait_is_polled_at_the_same_router(router: RouterStub, other: RouterStub) -> None:
    async with (
        RouterClient([router.url, other.url], "t", timeouts=ONE_SECOND_WAITS) as client,
        asyncio.TaskGroup() as tasks,
    ):
        running = tasks.create_task(client.infer(request()))
        called = await first_called(router, other)
        await called.until(lambda: called.calls.count("poll exe_a.0.0") >= 2)
        await called.finish("exe_a.0.0")
        assert (await running).state is InferenceState.COMPLETED
    assert called.calls[0] == "send exe_a.0.0"
    assert set(called.calls[1:]) == {"poll exe_a.0.0"}
    assert (router.calls, other.calls).count([]) == 1


async def test_a_router_that_dies_is_replaced_by_the_other(router: RouterStub, other: RouterStub) -> None:
    async with RouterClient([router.url, other.url], "t") as client, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(client.infer(request()))
        called = await first_called(router, other)
        survivor = other if called is router else router
        await called.die()
        await survivor.until(lambda: "exe_a.0.0" in survivor.known)
        await survivor.finish("exe_a.0.0")
        assert (await running).state is InferenceState.COMPLETED
    assert survivor.bodies == called.bodies


async def test_a_lost_router_is_replaced_by_one_that_continues_its_run(
    router: RouterStub, other: RouterStub
) -> None:
    remote, seen = RemoteRun(backend="us-1", run_id="pred-17"), asyncio.Event()
    async with RouterClient([router.url, other.url], "t") as client, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(
            client.infer(request(), on_state=lambda view: seen.set() if view and view.remote else None)
        )
        called = await first_called(router, other)
        survivor = other if called is router else router
        await called.report("exe_a.0.0", state="running", remote=remote.model_dump())
        await seen.wait()
        await called.die()
        await survivor.until(lambda: "exe_a.0.0" in survivor.known)
        await survivor.finish("exe_a.0.0")
        assert (await running).state is InferenceState.COMPLETED
    assert called.bodies[0]["remote"] is None
    assert survivor.bodies[0]["remote"] == remote.model_dump()


async def test_a_failed_run_is_not_continued(router: RouterStub, other: RouterStub) -> None:
    remote = RemoteRun(backend="us-1", run_id="pred-17")
    states: asyncio.Queue[InferenceState | None] = asyncio.Queue()
    async with RouterClient([router.url, other.url], "t") as client, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(
            client.infer(request(), on_state=lambda view: states.put_nowait(view.state if view else None))
        )
        called = await first_called(router, other)
        survivor = other if called is router else router
        for state, run in (("running", remote.model_dump()), ("backoff", None)):
            await called.report("exe_a.0.0", state=state, remote=run)
            while await states.get() != state:
                pass
        await called.die()
        await survivor.until(lambda: "exe_a.0.0" in survivor.known)
        await survivor.finish("exe_a.0.0")
        await running
    assert survivor.bodies[0]["remote"] is None


async def test_a_cancel_names_the_run_at_the_backend(router: RouterStub) -> None:
    async with RouterClient([router.url], "t") as client, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(client.infer(request()))
        await router.until(lambda: "exe_a.0.0" in router.known)
        remote = RemoteRun(backend="us-1", run_id="pred/17&more")
        await client.cancel("exe_a.0.0", "US", fence=4, remote=remote)
        assert (await running).state is InferenceState.CANCELLED
    assert router.cancels == [{"fence": "4", "backend": "us-1", "run_id": "pred/17&more"}]


@pytest.mark.parametrize("state", ["running", "completed"])
async def test_a_run_of_an_earlier_worker_is_joined(
    router: RouterStub, other: RouterStub, state: str
) -> None:
    """Its first worker died: the next one must not start a second run at another router."""
    for _ in range(2):
        async with RouterClient([router.url, other.url], "t") as client, asyncio.TaskGroup() as tasks:
            other.known["exe_a.0.0"] = view_of(request().model_dump(mode="json")) | {"state": state}
            running = tasks.create_task(client.infer(request(), again=True))
            await other.until(lambda: "send exe_a.0.0" in other.calls)
            await other.finish("exe_a.0.0")
            assert (await running).state is InferenceState.COMPLETED
    assert set(router.calls) == {"poll exe_a.0.0"}


async def test_an_unavailable_router_does_not_delay_another(router: RouterStub, other: RouterStub) -> None:
    await other.die()
    async with RouterClient([router.url, other.url], "t") as client, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(client.infer(request(), again=True))
        await router.until(lambda: "exe_a.0.0" in router.known)
        await router.finish("exe_a.0.0")
        assert (await running).state is InferenceState.COMPLETED


async def test_a_silent_router_is_not_searched_by_every_call(router: RouterStub, other: RouterStub) -> None:
    clock = ManualClock()
    other.next_answers += [cut] * 100
    names = [f"exe_{name}.0.0" for name in "abcd"]
    called = []
    async with RouterClient([router.url, other.url], "t", clock) as client:
        for name in names:
            router.known[name] = view_of(request(name).model_dump(mode="json")) | {"state": "completed"}
            assert (await client.infer(request(name), again=True)).state is InferenceState.COMPLETED
            called.append(len(other.calls))
        await clock.advance(60)
        await client.infer(request(names[0]), again=True)
    assert called[2:] == [called[2]] * 2  # after three silences in a row not again, while it rests
    assert len(other.calls) > called[-1]


async def test_a_restarted_router_gets_the_request_again(router: RouterStub) -> None:
    async with (
        RouterClient([router.url], "t", timeouts=ONE_SECOND_WAITS) as client,
        asyncio.TaskGroup() as tasks,
    ):
        running = tasks.create_task(client.infer(request()))
        await router.until(lambda: len(router.calls) == 2)
        router.known.clear()
        await router.until(lambda: router.calls.count("send exe_a.0.0") == 2)
        await router.finish("exe_a.0.0")
        assert (await running).state is InferenceState.COMPLETED


async def test_a_lost_connection_is_retried_at_the_same_router(router: RouterStub, other: RouterStub) -> None:
    router.next_answers.append(cut)
    other.next_answers.append(cut)
    async with RouterClient([router.url, other.url], "t") as client, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(client.infer(request()))
        called = await first_called(router, other)
        await called.until(lambda: "exe_a.0.0" in called.known)
        await called.finish("exe_a.0.0")
        await running
    assert called.calls == ["send exe_a.0.0"] * 2
    assert (router.calls, other.calls).count([]) == 1


async def test_all_routers_full_is_busy_with_the_shorter_delay(router: RouterStub, other: RouterStub) -> None:
    router.next_answers.append(refuse(429, "queue_full", "the queue of US is full", Retry_After="7"))
    other.next_answers.append(refuse(503, "no_backend", "no backend serves flux", Retry_After="5"))
    async with RouterClient([router.url, other.url], "t") as client:
        with pytest.raises(RouterBusy) as busy:
            await client.infer(request())
    assert (busy.value.retry_after_s, busy.value.reason) == (5.0, "no backend serves flux")


async def test_a_full_router_is_replaced_by_another(router: RouterStub, other: RouterStub) -> None:
    async def full_then_ok(full: RouterStub, free: RouterStub) -> None:
        full.next_answers.append(refuse(429, "queue_full", "full", Retry_After="7"))
        address = [full.url, free.url]
        async with RouterClient(address, "t") as client, asyncio.TaskGroup() as tasks:
            running = tasks.create_task(client.infer(request()))
            await free.until(lambda: "exe_a.0.0" in free.known)
            await free.finish("exe_a.0.0")
            await running

    await full_then_ok(router, other)


async def test_a_refusal_is_final(router: RouterStub) -> None:
    router.next_answers.append(refuse(422, "unknown_model", "there is no model flux"))
    async with RouterClient([router.url], "t") as client:
        with pytest.raises(RouterRefused, match="there is no model flux") as refused:
            await client.infer(request())
    assert refused.value.failure.code == "unknown_model"
    assert len(router.calls) == 1


async def test_no_router_is_unreachable() -> None:
    async with RouterClient([closed_port()], "t", timeouts=ONE_SECOND_WAITS) as client:
        with pytest.raises(RouterUnreachable, match="cannot connect"):
            await client.infer(request())


async def test_an_endless_response_is_bounded_in_time(
    router: RouterStub,
) -> None:
    forever = asyncio.Event()

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{")
        await forever.wait()
        return response

    router.next_answers += [drip] * 10
    times = RouterTimeouts(wait_s=1, exchange_s=0.2, max_tries=2)
    async with RouterClient([router.url], "t", timeouts=times) as client:
        with pytest.raises(RouterUnreachable, match=r"no answer within 0\.2 s"):
            await client.infer(request())


async def test_cancel_reaches_every_router_and_may_be_repeated(router: RouterStub, other: RouterStub) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(RouterClient([router.url, closed_port(), other.url], "t"))
        router.known["exe_a.0.0"] = {"state": "running", "request_id": "exe_a.0.0"}
        await client.cancel("exe_a.0.0")
        await client.cancel("exe_a.0.0", region="US")
    assert router.known["exe_a.0.0"]["state"] == "cancelled"
    assert router.calls == other.calls == ["DELETE /inference/exe_a.0.0"] * 2


async def test_find_searches_all_routers(router: RouterStub, other: RouterStub) -> None:
    async with RouterClient([router.url, other.url], "t") as client:
        assert await client.find("exe_a.0.0") is None
        other.known["exe_a.0.0"] = {
            "request_id": "exe_a.0.0",
            "state": "queued",
            "model": "flux",
            "requested_region": "US",
            "fence": 1,
            "position": 4,
        }
        found = await client.find("exe_a.0.0")
    assert found is not None
    assert found.position == 4


async def test_status_names_the_unavailable_router(router: RouterStub) -> None:
    away = closed_port()
    async with RouterClient([router.url, away], "t") as client:
        here, gone = await client.status()
    assert here.queues is not None
    assert here.queues.waiting == 0
    assert gone.url == away
    assert gone.queues is None
    assert "cannot connect" in (gone.error or "")


async def test_an_id_with_a_slash_stays_one_path_segment(router: RouterStub) -> None:
    async with RouterClient([router.url], "t") as client:
        await client.cancel("a/../b?c")
    assert router.calls == ["DELETE /inference/a/../b?c"]


async def test_many_callers_share_the_routers_evenly(router: RouterStub, other: RouterStub) -> None:
    async with RouterClient([router.url, other.url], "t") as client, asyncio.TaskGroup() as tasks:
        for number in range(40):
            tasks.create_task(client.infer(request(f"exe_{number}")))
        await router.until(lambda: len(router.known) == 20)
        await other.until(lambda: len(other.known) == 20)
        for place in (router, other):
            for request_id in list(place.known):
                await place.finish(request_id)


async def first_called(*routers: RouterStub) -> RouterStub:
    """The router that is called first."""
    waits = [
        asyncio.ensure_future(router.until(lambda: any(one.calls for one in routers))) for router in routers
    ]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    return next(router for router in routers if router.calls)
