"""The router's own connections to backends, against a server that says exactly what a test tells it to."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from beacon_contracts.failures import FailureStage
from beacon_router.backends import BackendCall, BackendError, Pool
from beacon_router.service.streams import StreamSink
from tests.fixtures.waiting import patience, until
from tests.integration.router.awaited import awaited, open_pool
from tests.integration.router.raw_server import OK, Handler, Server, Visitor, server_that

CALL = BackendCall("r-1", "m", b'{"prompt":"Why?"}')
BODY = b'{"output":"yes"}'
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with open_pool() as opened:
        yield opened


async def always_ok(visitor: Visitor) -> None:
    while await visitor.request():
        await visitor.say(OK)


def says(data: bytes) -> Handler:
    """Answers every request with this and closes the connection."""

    async def handler(visitor: Visitor) -> None:
        if await visitor.request():
            await visitor.say(data)

    return handler


async def output_of(server: Server, pool: Pool) -> object:
    answer = await awaited("modal", server.url, pool, answer_bytes=10_000).run(CALL)
    return orjson.loads(answer.output)


async def error_of(server: Server, pool: Pool) -> BackendError:
    with pytest.raises(BackendError) as failed:
        await output_of(server, pool)
    return failed.value


async def test_calls_one_after_another_share_a_connection(pool: Pool) -> None:
    async with server_that(always_ok) as server:
        for _ in range(3):
            assert await output_of(server, pool) == "yes"

        assert (server.visits, len(pool)) == (1, 1)


async def test_calls_at_once_have_a_connection_each(pool: Pool) -> None:
    both_are_here = asyncio.Barrier(2)

    async def handler(visitor: Visitor) -> None:
        while await visitor.request():
            await both_are_here.wait()
            await visitor.say(OK)

    async with server_that(handler) as server, patience("both calls are answered"):
        calls = [output_of(server, pool) for _ in range(2)]
        assert list(await asyncio.gather(*calls)) == ["yes", "yes"]
        assert server.visits == 2


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7\r\n{"outpu\r\n9\r\nt":"yes"}\r\n0\r\n\r\n',
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\n\r\n" + BODY,
        b"HTTP/1.0 200 OK\r\n\r\n" + BODY,
    ],
    ids=["chunked", "after 100", "after 103", "until the end", "of HTTP/1.0"],
)
async def test_an_answer_may_come_in_many_ways(answer: bytes, pool: Pool) -> None:
    async with server_that(says(answer)) as server:
        assert await output_of(server, pool) == "yes"


async def test_an_answer_may_come_byte_by_byte(pool: Pool) -> None:
    async def handler(visitor: Visitor) -> None:
        while await visitor.request():
            for byte in OK:
                await visitor.say(bytes([byte]))
                await asyncio.sleep(0)

    async with server_that(handler) as server:
        assert await output_of(server, pool) == "yes"


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (b"", "connection_lost", "closed"),
        (b"HTTP/1.1 200 OK\r\ncontent-le", "connection_lost", "closed"),
        (OK[:-3], "connection_lost", "closed"),
        (b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7\r\n{"outpu', "connection_lost", "closed"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "bad_payload", "not HTTP"),
        (b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n", "bad_payload", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 20000\r\n\r\n" + b"x" * 20_000, "bad_payload", "longer"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 70_000 + b"\r\n\r\n", "bad_payload", "head"),
        (
            b'HTTP/1.1 200 OK\r\ncontent-length: 811\r\nconnection: close\r\n\r\n{"output":'
            + b"[" * 400
            + b"]" * 400
            + b"}",
            "bad_payload",
            "written",
        ),
    ],
    ids=[
        "nothing",
        "half a head",
        "half a body",
        "half a chunk",
        "no HTTP",
        "upgrade",
        "long",
        "long head",
        "deep",
    ],
)
async def test_a_bad_answer_is_told_apart(answer: bytes, code: str, words: str, pool: Pool) -> None:
    async with server_that(says(answer)) as server:
        error = await error_of(server, pool)

        assert error.code == code
        assert words in error.message
        await until(lambda: len(pool) == 0, "its connection is closed")


async def test_a_connection_that_says_too_much_is_not_used_again(pool: Pool) -> None:
    async def handler(visitor: Visitor) -> None:
        while await visitor.request():
            await visitor.say(OK + OK)

    async with server_that(handler) as server:
        assert [await output_of(server, pool) for _ in range(2)] == ["yes", "yes"]
        assert server.visits == 2


async def test_a_connection_that_the_server_ended_is_not_used_again(pool: Pool) -> None:
    async with server_that(says(OK)) as server:
        assert await output_of(server, pool) == "yes"
        await until(lambda: len(pool) == 0, "the router has seen the end of the connection")

        assert await output_of(server, pool) == "yes"
        assert server.visits == 2


async def test_an_idle_connection_is_closed_after_its_time() -> None:
    async with open_pool(keep_alive_s=0.05) as pool, server_that(always_ok) as server:
        assert await output_of(server, pool) == "yes"

        await until(lambda: len(pool) == 0, "the idle connection is closed")


async def test_a_call_lost_with_a_kept_connection_may_have_run_and_is_not_sent_again(pool: Pool) -> None:
    seen: list[str] = []

    async def handler(visitor: Visitor) -> None:
        while line := await visitor.request():
            seen.append(line)
            if len(seen) > 1:
                return
            await visitor.say(OK)

    async with server_that(handler) as server:
        assert await output_of(server, pool) == "yes"
        error = await error_of(server, pool)

    assert (error.code, error.stage, error.retryable) == ("connection_lost", FailureStage.TRANSPORT, True)
    assert len(seen) == 2


async def test_a_look_lost_with_a_kept_connection_is_sent_again(pool: Pool) -> None:
    """Modal redirects to where the result will be: looking twice there does no harm."""
    looks: list[int] = []

    async def handler(visitor: Visitor) -> None:
        while line := await visitor.request():
            if line.startswith("post"):
                await visitor.say(b"HTTP/1.1 303 See Other\r\nlocation: /later\r\ncontent-length: 0\r\n\r\n")
                continue
            looks.append(visitor.number)
            if len(looks) == 1:
                return
            await visitor.say(OK)

    async with server_that(handler) as server:
        assert await output_of(server, pool) == "yes"

    assert looks == [1, 2]


@pytest.mark.parametrize("place", ["http://127.0.0.2:9/x", "", "http://[", "ftp://127.0.0.1/x"])
async def test_a_redirect_to_another_place_is_not_followed(place: str, pool: Pool) -> None:
    answer = f"HTTP/1.1 303 See Other\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n".encode()
    async with server_that(says(answer)) as server:
        assert (await error_of(server, pool)).code == "bad_payload"


async def test_a_cancelled_call_closes_its_connection(pool: Pool) -> None:
    left = asyncio.Event()

    async def handler(visitor: Visitor) -> None:
        await visitor.request()
        await visitor.request()
        left.set()

    async with server_that(handler) as server, patience("the server sees the client leave"):
        call = asyncio.ensure_future(output_of(server, pool))
        await until(lambda: server.visits == 1, "the call has arrived")
        call.cancel()
        await left.wait()


async def test_a_call_cancelled_while_it_connects_is_never_sent(pool: Pool) -> None:
    async with server_that(always_ok) as server:
        call = asyncio.ensure_future(output_of(server, pool))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

        assert await output_of(server, pool) == "yes"
        assert len(pool) == 1


async def test_a_stream_comes_piece_by_piece(pool: Pool) -> None:
    go_on = asyncio.Event()

    async def handler(visitor: Visitor) -> None:
        await visitor.request()
        await visitor.say(EVENTS + b"data: one\n\n")
        await go_on.wait()
        await visitor.say(b"data: two\n\n")

    async with server_that(handler) as server, patience("the stream comes to its end"):
        sink = StreamSink()
        run = asyncio.ensure_future(awaited("openai", server.url, pool).run(CALL, sink))
        assert await sink.read() == b"data: one\n\n"
        assert not run.done()
        go_on.set()
        assert await sink.read() == b"data: two\n\n"
        await run


async def test_a_stream_is_no_faster_than_its_reader(pool: Pool) -> None:
    piece, pieces, said = b"x" * 65_536, 400, 0

    async def handler(visitor: Visitor) -> None:
        nonlocal said
        await visitor.request()
        await visitor.say(EVENTS)
        for _ in range(pieces):
            await visitor.say(piece)
            said += 1

    async with server_that(handler) as server, patience("all of the stream is read"):
        sink = StreamSink()
        run = asyncio.ensure_future(awaited("openai", server.url, pool).run(CALL, sink))
        first = await sink.read()
        held_back = said
        read = len(first or b"")
        while read < len(piece) * pieces:
            read += len(await sink.read() or b"")
        await run

    assert held_back < pieces
    assert said == pieces


async def test_a_stream_that_breaks_off_is_a_failure(pool: Pool) -> None:
    async with server_that(says(CHUNKED + b"5\r\ndata:\r\n")) as server:
        sink = StreamSink()
        with pytest.raises(BackendError) as failed:
            await awaited("openai", server.url, pool).run(CALL, sink)

    assert failed.value.code == "connection_lost"
    assert sink.begun


async def test_a_refused_stream_is_an_answer_with_a_status(pool: Pool) -> None:
    refused = b"HTTP/1.1 429 Too Many\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nbusy"
    async with server_that(says(refused)) as server:
        sink = StreamSink()
        with pytest.raises(BackendError) as failed:
            await awaited("openai", server.url, pool).run(CALL, sink)

    assert (failed.value.code, failed.value.retry_after_s) == ("backend_busy", 7)
    assert not sink.begun


async def test_a_server_that_does_not_take_the_connection_in_time() -> None:
    """A TLS handshake that never comes is a connection that never was."""

    async def silent(visitor: Visitor) -> None:
        await visitor.reader.read()

    async with open_pool(connect_timeout_s=0.1) as pool, server_that(silent) as server:
        server.url = server.url.replace("http://", "https://")
        error = await error_of(server, pool)

    assert (error.code, error.stage, error.retryable) == ("backend_unreachable", FailureStage.TRANSPORT, True)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made with openssl")
async def test_tls_with_a_certificate_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -addext subjectAltName=IP:127.0.0.1"
    )
    await asyncio.to_thread(
        subprocess.run,
        [*make.split(), "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    async with server_that(always_ok, tls) as server:
        async with open_pool() as strict:
            assert (await error_of(server, strict)).code == "backend_unreachable"
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with open_pool() as pool:
            assert [await output_of(server, pool) for _ in range(2)] == ["yes", "yes"]
            assert len(pool) == 1
