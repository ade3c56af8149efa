"""How callers behave on the wire: half requests, many at once on a connection, hanging up."""

import asyncio
import json
import signal
from contextlib import suppress

import pytest

from tests.fixtures.gpusim import Gpusim, start_gpusim
from tests.fixtures.router import TOKEN, Router, backend, router_config, start_router
from tests.fixtures.waiting import until, within_timeout
from tests.fixtures.wire import wire_to

LARGEST_BODY = 1_048_576
INSTANT = {"default_load": 0, "default_run": 0}


def ask(request_id: str, *more: str, length: int | None = None, token: str = TOKEN) -> bytes:
    """A request whose body is as long as it says; with a length, its head alone."""
    document = {"request_id": request_id, "model": "m", "region": "US", "input": {"prompt": "x"}}
    body = json.dumps(document).encode()
    lines = [
        "POST /inference HTTP/1.1",
        "host: router",
        f"authorization: Bearer {token}",
        f"content-length: {len(body) if length is None else length}",
        *more,
    ]
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    return head if length is not None else head + body


async def test_requests_on_one_connection_are_answered_in_order(router: Router) -> None:
    async with wire_to(router.url) as caller:
        await caller.send(ask("p-1") + ask("p-2") + b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" + ask("p-3"))
        answers = [await caller.answer() for _ in range(4)]

    assert [status for status, _, _ in answers] == [200] * 4
    assert [answers[place][2]["request_id"] for place in (0, 1, 3)] == ["p-1", "p-2", "p-3"]


async def test_a_body_may_come_in_pieces_and_chunks(router: Router) -> None:
    whole = ask("pieces")
    chunked = ask("chunks").replace(b"content-length: ", b"x-length: ")
    head, _, body = chunked.partition(b"\r\n\r\n")
    async with wire_to(router.url) as caller:
        for place in range(0, len(whole), 50):
            await caller.send(whole[place : place + 50])
        assert (await caller.answer())[2]["request_id"] == "pieces"
        await caller.send(head + b"\r\ntransfer-encoding: chunked\r\n\r\n")
        await caller.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert (await caller.answer())[2]["request_id"] == "chunks"


async def test_expect_100_continue_is_answered(router: Router) -> None:
    head, end, body = ask("polite", "expect: 100-continue").partition(b"\r\n\r\n")
    async with wire_to(router.url) as caller:
        await caller.send(head + end)
        assert (await caller.answer())[0] == 100
        await caller.send(body)
        assert (await caller.answer())[2]["request_id"] == "polite"


async def test_a_large_body_is_refused_without_100_continue(router: Router) -> None:
    async with wire_to(router.url) as caller:
        await caller.send(ask("large", "expect: 100-continue", length=10_000_000))
        status, headers, problem = await caller.answer()
        assert (status, problem["code"], headers["connection"]) == (413, "body_too_large", "close")
        assert await caller.ended()


@pytest.mark.parametrize("path", ["/inference", "/inference?x=1"])
async def test_an_offer_of_http2_is_ignored(router: Router, path: str) -> None:
    """Java's client offers HTTP/2 with every request until it is taken up, with bodies too."""
    offer = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABk")
    whole = [ask(f"h2c-{path}-{n}", *offer).replace(b"/inference", path.encode(), 1) for n in range(4)]
    async with wire_to(router.url) as caller:
        await caller.send(whole[0] + whole[1])
        for place in range(0, len(whole[2]), 50):
            await caller.send(whole[2][place : place + 50])
        await caller.send(whole[3])
        answers = [await caller.answer() for _ in whole]

    assert [status for status, _, _ in answers] == [200] * 4
    assert [document["request_id"] for _, _, document in answers] == [f"h2c-{path}-{n}" for n in range(4)]


async def test_an_unauthenticated_request_leaves_the_connection_open(router: Router) -> None:
    async with wire_to(router.url) as caller:
        await caller.send(ask("stranger", token="wrong"))
        assert (await caller.answer())[0] == 403
        await caller.send(ask("friend", "x-request-id: mine"))
        status, headers, _ = await caller.answer()

    assert (status, headers["x-request-id"]) == (200, "mine")


@pytest.mark.parametrize(
    "partial", [b"GET /", b"GET / HTTP/1.1\r\nhost: x\r\nx: ", ask("endless", length=5)[:-2] + b"x: "]
)
async def test_an_endless_head_is_refused(router: Router, partial: bytes) -> None:
    async with wire_to(router.url) as stranger, within_timeout("the router ends the connection"):
        with suppress(ConnectionError):
            await stranger.send(partial)
            for _ in range(30):
                await stranger.send(b"a" * 10_000)
            await stranger.reader.read()


async def test_too_many_headers_are_refused(router: Router) -> None:
    async with wire_to(router.url) as first:
        for number in range(3):
            await first.send(ask(f"long-{number}", "x: " + "a" * 50_000))
            assert (await first.answer())[0] == 200
        await first.send(b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: y\r\n" % n for n in range(10_000)))

        async with within_timeout("it is refused"):
            assert b" 400 " in await first.reader.readuntil(b"\r\n\r\n")


async def test_connection_close_is_honoured(router: Router) -> None:
    async with wire_to(router.url) as caller:
        await caller.send(ask("last", "connection: close"))
        status, headers, _ = await caller.answer()

        assert (status, headers["connection"]) == (200, "close")
        async with within_timeout("the router closes the connection"):
            assert await caller.reader.read() == b""


async def test_refusals_before_a_route_are_counted_in_metrics(router: Router) -> None:
    await router.infer("counted")

    text = (await router.http.get("/metrics")).text
    assert 'beacon_router_http_requests_total{method="POST",route="/inference",status="200"}' in text


async def test_a_disconnected_client_leaves_its_inference_running(router: Router, gpu: Gpusim) -> None:
    big = ask("gone-big").replace(b'"x"', b'"' + b"x" * 70_000 + b'"')
    head, _, body = big.partition(b"\r\n\r\n")
    chunked = head.replace(b"content-length", b"x-length") + b"\r\ntransfer-encoding: chunked\r\n\r\n"
    await gpu.add_fault(kind="hang", next=3)
    async with wire_to(router.url) as short, wire_to(router.url) as long, wire_to(router.url) as looking:
        await short.send(ask("gone"))
        await long.send(chunked + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        await gpu.wait_running(2)
        await looking.send(
            f"GET /inference/gone HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n"
            "prefer: wait=3000\r\n\r\n".encode()
        )
        await until(lambda: callers_are(router, 3), "three callers wait")
        for caller in (short, long, looking):
            caller.hang_up()

        await until(lambda: callers_are(router, 0), "all three are forgotten")
        await until(lambda: is_counted(router, "/inference/{request_id}", 499), "the look is counted")
        assert "request_crashed" not in router.process.log
        for name in ("gone", "gone-big"):
            assert not (await router.get(name)).state.terminal
            await router.cancel(name)


async def is_counted(router: Router, route: str, status: int) -> bool:
    text = (await router.http.get("/metrics")).text
    return f'beacon_router_http_requests_total{{method="GET",route="{route}",status="{status}"}}' in text


async def callers_are(router: Router, count: int) -> bool:
    text = (await router.http.get("/metrics")).text
    return f"beacon_router_waiters {count}.0" in text


async def test_incomplete_bodies_count_as_held_bytes() -> None:
    async with start_gpusim(region="US", slots=1, **INSTANT) as gpu:
        config = router_config({"us-1": backend("US", gpu.url, slots=1)}, held_bytes=10_000, body_bytes=8_000)
        async with start_router(config) as router:
            async with wire_to(router.url) as slow:
                await slow.send(ask("slow", length=7_900))
                await until(lambda: held_bytes(router), "room for the announced body is kept")
                refused = await router.submit("second", given={"prompt": "x" * 3_000})

                assert (refused.status_code, refused.json()["code"]) == (429, "memory_full")
                assert int(refused.headers["retry-after"]) >= 1
            await until(lambda: nothing_held(router), "the room is free again")
            assert (await router.infer("third", given={"prompt": "x" * 3_000})).state.value == "completed"


async def test_an_incomplete_body_releases_its_memory() -> None:
    async with start_gpusim(region="US", slots=1, **INSTANT) as gpu:
        config = router_config({"us-1": backend("US", gpu.url, slots=1)}, body_timeout_s=0.2)
        async with start_router(config) as router:
            chunked = ask("slow", "transfer-encoding: chunked").replace(b"content-length", b"x-length")
            batch = ask("slow", length=500).replace(b"/inference", b"/inference/batch")
            for head in (ask("slow", length=500), chunked.partition(b"\r\n\r\n")[0] + b"\r\n\r\n", batch):
                async with wire_to(router.url) as slow:
                    await slow.send(head + b"1")
                    status, headers, document = await slow.answer()

                    assert status == 408
                    assert "body_too_slow" in str(document)
                    assert headers["connection"] == "close"
            assert await nothing_held(router)


async def held_bytes(router: Router) -> bool:
    return bool((await router.queues())["held_bytes"] >= 7_900)


async def nothing_held(router: Router) -> bool:
    return bool((await router.queues())["held_bytes"] == 0)


async def test_an_incomplete_request_is_answered_at_a_stop() -> None:
    async with start_gpusim(region="US", slots=1, **INSTANT) as gpu:
        config = router_config({"us-1": backend("US", gpu.url, slots=1)}, body_bytes=LARGEST_BODY)
        async with start_router(config) as router:
            async with wire_to(router.url) as sized, wire_to(router.url) as chunked:
                await sized.send(ask("half", length=500) + b"{")
                head = ask("half-chunked", length=500).replace(b"content-length", b"x-length")
                await chunked.send(head[:-2] + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n")
                await until(lambda: both_arrive(router), "both requests have started")
                router.process.send(signal.SIGTERM)

                for caller in (sized, chunked):
                    status, headers, problem = await caller.answer()
                    assert (status, problem["code"]) == (503, "server_stopping")
                    assert int(headers["retry-after"]) >= 1
            assert await asyncio.to_thread(router.process.wait_exit) == 0
        assert await gpu.ledger() == []


async def both_arrive(router: Router) -> bool:
    """A body that does not say how long it is may become as long as any."""
    return bool((await router.queues())["held_bytes"] == 500 + LARGEST_BODY)
