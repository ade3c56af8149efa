"""How requests share exchanges, and what incomplete and malformed responses to a batch mean."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from beacon_contracts.inference import InferenceState
from beacon_runner.ports.router import RouterRefused
from beacon_runner.router_client import RouterClient, RouterTimeouts
from beacon_runner.router_client.batches import MAX_EXCHANGES
from tests.fixtures.waiting import within_timeout
from tests.integration.runner_router_client.router_stub import (
    Handler,
    RouterStub,
    line_of,
    no_answer,
    refuse,
    router_stub,
    view_of,
)
from tests.integration.runner_router_client.test_router_client import request

SHORT_POLLS = RouterTimeouts(wait_s=1, exchange_s=60.0)


@pytest.fixture
async def router() -> AsyncIterator[RouterStub]:
    async with router_stub() as one:
        yield one


def ids(count: int) -> list[str]:
    return [f"exe_{number}.0.0" for number in range(count)]


def done(request_id: str, **more: object) -> dict[str, object]:
    return view_of(request(request_id).model_dump(mode="json")) | {"state": "completed", **more}


def sending(*pieces: bytes) -> Handler:
    """A response of exactly these pieces; the connection is cut after them."""

    async def answer(given: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/x-ndjson"})
        await response.prepare(given)
        for piece in pieces:
            await response.write(piece)
        assert given.transport is not None
        given.transport.close()
        return response

    return answer


async def finish_all(router: RouterStub, request_ids: list[str]) -> None:
    await router.until(lambda: set(request_ids) <= set(router.known))
    for request_id in request_ids:
        await router.finish(request_id)


async def test_requests_that_are_due_together_are_one_exchange(router: RouterStub) -> None:
    async with RouterClient([router.url], "t") as client, asyncio.TaskGroup() as tasks:
        for request_id in ids(100):
            tasks.create_task(client.infer(request(request_id)))
        await finish_all(router, ids(100))
    assert router.batches == 1


async def test_a_batch_has_at_most_the_given_bytes(router: RouterStub) -> None:
    size = len(request(ids(1)[0]).model_dump_json())
    async with (
        RouterClient([router.url], "t", max_batch_bytes=4 * size) as client,
        asyncio.TaskGroup() as tasks,
    ):
        for request_id in ids(9):
            tasks.create_task(client.infer(request(request_id)))
        await finish_all(router, ids(9))
    assert router.batches == 3


async def test_many_single_requests_use_few_connections(router: RouterStub) -> None:
    """Each becomes due in a turn of its own, and all wait: the exchanges are merged."""
    accepted = asyncio.Queue[None]()
    async with RouterClient([router.url], "t") as client, asyncio.TaskGroup() as tasks:
        for request_id in ids(200):
            tasks.create_task(client.infer(request(request_id), on_state=lambda _: accepted.put_nowait(None)))
            async with within_timeout("the router has accepted it"):
                await accepted.get()
        await finish_all(router, ids(200))
    assert router.most_open_batches <= MAX_EXCHANGES + 1  # the router may notice a closed one later
    assert router.batches >= 200
    assert sorted(call for call in router.calls if call.startswith("send")) == sorted(
        f"send {request_id}" for request_id in ids(200)
    )


async def test_requests_that_were_given_up_are_not_sent(router: RouterStub) -> None:
    async with RouterClient([router.url], "t") as client, asyncio.TaskGroup() as tasks:
        given_up = tasks.create_task(client.infer(request("exe_a.0.0")))
        tasks.create_task(client.infer(request("exe_b.0.0")))
        await asyncio.sleep(0)
        given_up.cancel()
        await finish_all(router, ["exe_b.0.0"])
    assert router.calls == ["send exe_b.0.0"]


async def test_a_large_result_arrives_in_many_pieces(router: RouterStub) -> None:
    line = line_of("exe_a.0.0", 200, done("exe_a.0.0", output={"text": "x" * 5_000_000}))
    router.next_answers.append(sending(*(line[at : at + 100_000] for at in range(0, len(line), 100_000))))
    async with RouterClient([router.url], "t") as client:
        assert len((await client.infer(request())).output["text"]) == 5_000_000


@pytest.mark.parametrize(
    "response",
    [
        (b"",),
        (b"\n\n",),
        (b"<html>\n",),
        (line_of(None, 422, {}),),
        (line_of("unknown", 200, done("unknown")),),
        (b'{"request_id": "exe_b.0.0", "status": "fine"}\n',),
        (line_of("exe_b.0.0", 200, done("exe_b.0.0"))[:-20],),
        (line_of("exe_b.0.0", 200, {"half": "a view"}),),
        (line_of("exe_b.0.0", 500, {}),),
    ],
)
async def test_an_entry_without_a_valid_line_is_sent_again_and_the_others_are_not(
    router: RouterStub, response: tuple[bytes, ...]
) -> None:
    twice = line_of("exe_a.0.0", 200, done("exe_a.0.0"))
    router.next_answers.append(sending(twice, *response, twice))
    async with RouterClient([router.url], "t") as client, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(client.infer(request("exe_a.0.0")))
        second = tasks.create_task(client.infer(request("exe_b.0.0")))
        await finish_all(router, ["exe_b.0.0"])
        assert (await first).state is (await second).state is InferenceState.COMPLETED
    assert router.calls == ["send exe_a.0.0", "send exe_b.0.0", "send exe_b.0.0"]


async def test_one_refused_entry_fails_alone(router: RouterStub) -> None:
    problem = {"title": "T", "status": 422, "code": "unknown_model", "detail": "no flux"}
    router.next_answers.append(
        sending(line_of("exe_a.0.0", 422, problem), line_of("exe_b.0.0", 200, done("exe_b.0.0")))
    )
    async with RouterClient([router.url], "t") as client:
        calls = (client.infer(request("exe_a.0.0")), client.infer(request("exe_b.0.0")))
        refused, view = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(refused, RouterRefused)
    assert not isinstance(view, BaseException)
    assert view.state is InferenceState.COMPLETED


async def test_a_batch_that_is_refused_whole_is_sent_entry_by_entry(router: RouterStub) -> None:
    router.next_answers += [refuse(413, "body_too_large", "too large")] * 2
    async with RouterClient([router.url], "t") as client, asyncio.TaskGroup() as tasks:
        large = tasks.create_task(refused_code(client, "exe_a.0.0"))
        small = tasks.create_task(client.infer(request("exe_b.0.0")))
        await finish_all(router, ["exe_b.0.0"])
        assert (await large, (await small).state) == ("body_too_large", "completed")
    assert router.calls == ["send exe_a.0.0", "send exe_b.0.0", "send exe_a.0.0", "send exe_b.0.0"]


async def test_polls_of_one_exchange_are_one_exchange_again(router: RouterStub) -> None:
    async with RouterClient([router.url], "t", timeouts=SHORT_POLLS) as client, asyncio.TaskGroup() as tasks:
        for request_id in ids(50):
            tasks.create_task(client.infer(request(request_id)))
        await router.until(lambda: any(call.startswith("poll") for call in router.calls))
        await finish_all(router, ids(50))
    assert router.batches == 2


async def refused_code(client: RouterClient, request_id: str) -> str:
    with pytest.raises(RouterRefused) as refused:
        await client.infer(request(request_id))
    return refused.value.problem.code


async def test_a_frozen_router_does_not_hold_up_requests_to_another(router: RouterStub) -> None:
    async with router_stub() as other:
        router.next_answers.append(no_answer)
        addresses = [f"US={router.url}", f"EU={other.url}"]
        async with RouterClient(addresses, "t", timeouts=SHORT_POLLS) as client, asyncio.TaskGroup() as tasks:
            frozen = tasks.create_task(client.infer(request("exe_0.0.0", "US")))
            await router.until(lambda: len(router.calls) == 1)
            served = tasks.create_task(client.infer(request("exe_1.0.0", "EU")))
            await finish_all(other, ["exe_1.0.0"])
            async with within_timeout("the other router answers"):
                assert (await served).state is InferenceState.COMPLETED
            assert not frozen.done()
            frozen.cancel()


async def test_what_waits_behind_a_frozen_exchange_is_sent_when_it_has_failed(router: RouterStub) -> None:
    router.next_answers.append(no_answer)
    times = RouterTimeouts(wait_s=1, exchange_s=1.5)
    async with RouterClient([router.url], "t", timeouts=times) as client, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(client.infer(request("exe_0.0.0")))
        await router.until(lambda: len(router.calls) == 1)
        second = tasks.create_task(client.infer(request("exe_1.0.0")))
        await finish_all(router, ids(2))
        async with within_timeout("both are sent again"):
            ended = [await first, await second]
    assert {view.state for view in ended} == {InferenceState.COMPLETED}
