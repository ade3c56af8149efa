"""Pipelined requests are answered in order, and only a few of them are held."""

from tests.fixtures.gpusim import Gpusim
from tests.fixtures.router import TOKEN, Router
from tests.fixtures.wire import wire_to

GET_HEALTH = b"GET /healthz HTTP/1.1\r\nhost: router\r\n\r\n"
BODY = b'{"request_id": "ahead-%d", "model": "m", "region": "US", "input": {"prompt": "x"}}'
ASK = b"POST /inference HTTP/1.1\r\nhost: router\r\nauthorization: Bearer %b\r\ncontent-length: %d\r\n\r\n%b"


def ask(number: int) -> bytes:
    body = BODY % number
    return ASK % (TOKEN.encode(), len(body), body)


async def test_pipelined_requests_are_answered_in_order(router: Router) -> None:
    async with wire_to(router.url) as wire:
        await wire.send(b"".join(map(ask, range(100))))
        for number in range(100):
            status, headers, document = await wire.answer()
            assert (status, document["request_id"]) == (200, f"ahead-{number}")
            assert "connection" not in headers
        await wire.send(GET_HEALTH)
        assert (await wire.answer())[0] == 200


async def test_requests_are_not_read_ahead_without_limit(router: Router, gpu: Gpusim) -> None:
    """While a response is pending the router stops reading, so the client has to wait."""
    await gpu.add_fault(kind="hang", next=1)
    async with wire_to(router.url) as wire:
        wire.writer.write(ask(1_000) + GET_HEALTH * 1_000_000)
        await gpu.wait_running(1)
        for _ in range(100):
            async with wire_to(router.url) as other:
                await other.send(GET_HEALTH)
                assert (await other.answer())[0] == 200
        assert wire.writer.transport.get_write_buffer_size() > 20_000_000
        wire.hang_up()
    await router.cancel("ahead-1000")
