"""Requests sent ahead of their answers: some wait for their turn, but not thousands."""

from beacon_lifecycle.http_heads import MOST_AHEAD
from tests.fixtures.router import TOKEN, Router
from tests.fixtures.waiting import patience
from tests.fixtures.wire import wire_to

LOOK = b"GET /healthz HTTP/1.1\r\nhost: router\r\n\r\n"
BODY = b'{"request_id": "ahead-%d", "model": "m", "region": "US", "input": {"prompt": "x"}}'
ASK = b"POST /inference HTTP/1.1\r\nhost: router\r\nauthorization: Bearer %b\r\ncontent-length: %d\r\n\r\n%b"


def ask(number: int) -> bytes:
    body = BODY % number
    return ASK % (TOKEN.encode(), len(body), body)


async def test_requests_sent_ahead_are_answered_in_their_order(router: Router) -> None:
    async with wire_to(router.url) as wire:
        await wire.send(b"".join(map(ask, range(MOST_AHEAD))))
        for number in range(MOST_AHEAD):
            status, headers, document = await wire.answer()
            assert (status, document["request_id"]) == (200, f"ahead-{number}")
            assert "connection" not in headers
        await wire.send(LOOK)
        assert (await wire.answer())[0] == 200


async def test_too_many_are_not_held_and_the_last_answer_says_so(router: Router) -> None:
    async with wire_to(router.url) as wire:
        await wire.send(LOOK * 10_000)
        async with patience("the router ends the connection"):
            answers = (await wire.reader.read()).split(b"HTTP/1.1 200 OK")[1:]
    assert MOST_AHEAD < len(answers) < 10_000
    assert [b"connection: close" in answer for answer in answers] == [False] * (len(answers) - 1) + [True]
