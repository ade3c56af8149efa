"""The router's connections to backends, against a server with scripted bytes."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
from yarl import URL

from beacon_contracts.failures import FailureStage
from beacon_router.backends import BackendClient, BackendError, BackendTransport
from beacon_router.service.streams import StreamSink
from tests.fixtures.waiting import until, within_timeout
from tests.integration.router.backend_calls import backend_at, open_client, spec_of
from tests.integration.router.raw_server import OK, Connection, Handler, Server, server_that

CALL = spec_of("r-1", "m", b'{"prompt":"Why?"}')
BODY = b'{"output":"yes"}'
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


@pytest.fixture
async def client() -> AsyncIterator[BackendClient]:
    async with open_client() as opened:
        yield opened


async def always_ok(connection: Connection) -> None:
    while await connection.request():
        await connection.send(OK)


def answers_with(data: bytes) -> Handler:
    """Answers every request with this and closes the connection."""

    async def handler(connection: Connection) -> None:
        if await connection.request():
            await connection.send(data)

    return handler


async def output_of(server: Server, client: BackendClient) -> object:
    answer = await backend_at("modal", server.url, client, max_response_bytes=10_000).run(CALL)
    return orjson.loads(answer.output)


async def error_of(server: Server, client: BackendClient) -> BackendError:
    with pytest.raises(BackendError) as failed:
        await output_of(server, client)
    return failed.value


async def test_sequential_calls_share_a_connection(client: BackendClient) -> None:
    async with server_that(always_ok) as server:
        for _ in range(3):
            assert await output_of(server, client) == "yes"

        assert (server.accepted, server.open) == (1, 1)


async def test_concurrent_calls_have_a_connection_each(client: BackendClient) -> None:
    both_are_here = asyncio.Barrier(2)

    async def handler(connection: Connection) -> None:
        while await connection.request():
            await both_are_here.wait()
            await connection.send(OK)

    async with server_that(handler) as server, within_timeout("both calls are answered"):
        calls = [output_of(server, client) for _ in range(2)]
        assert list(await asyncio.gather(*calls)) == ["yes", "yes"]
        assert server.accepted == 2


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
async def test_all_framings_of_a_response_are_read(answer: bytes, client: BackendClient) -> None:
    async with server_that(answers_with(answer)) as server:
        assert await output_of(server, client) == "yes"


async def test_a_response_may_arrive_byte_by_byte(client: BackendClient) -> None:
    async def handler(connection: Connection) -> None:
        while await connection.request():
            for byte in OK:
                await connection.send(bytes([byte]))
                await asyncio.sleep(0)

    async with server_that(handler) as server:
        assert await output_of(server, client) == "yes"


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (b"", "connection_lost", ""),
        (b"HTTP/1.1 200 OK\r\ncontent-le", "connection_lost", ""),
        (OK[:-3], "connection_lost", "ended before it was complete"),
        (b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7\r\n{"outpu', "connection_lost", "complete"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "bad_payload", "not valid HTTP"),
        (b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n", "backend_error", "101"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 20000\r\n\r\n" + b"x" * 20_000, "bad_payload", "longer"),
        (
            b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 70_000 + b"\r\n\r\n",
            "bad_payload",
            "more than 16384",
        ),
        (
            b'HTTP/1.1 200 OK\r\ncontent-length: 811\r\nconnection: close\r\n\r\n{"output":'
            + b"[" * 400
            + b"]" * 400
            + b"}",
            "bad_payload",
            "cannot be encoded",
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
async def test_each_bad_response_has_its_error_code(
    answer: bytes, code: str, words: str, client: BackendClient
) -> None:
    async with server_that(answers_with(answer)) as server:
        error = await error_of(server, client)

        assert error.code == code
        assert words in error.message


async def test_a_connection_with_surplus_data_is_not_reused(client: BackendClient) -> None:
    async def handler(connection: Connection) -> None:
        while await connection.request():
            await connection.send(OK + OK)

    async with server_that(handler) as server:
        assert [await output_of(server, client) for _ in range(2)] == ["yes", "yes"]
        assert server.accepted == 2


async def test_a_connection_closed_by_the_server_is_not_reused(client: BackendClient) -> None:
    async with server_that(answers_with(OK)) as server:
        assert await output_of(server, client) == "yes"
        await asyncio.sleep(0)  # the client reads the end of the connection

        assert await output_of(server, client) == "yes"
        assert server.accepted == 2


async def test_an_idle_connection_is_closed_after_its_time() -> None:
    async with open_client(keep_alive_s=0.05) as client, server_that(always_ok) as server:
        assert await output_of(server, client) == "yes"

        await until(lambda: server.open == 0, "the idle connection is closed")


async def test_a_post_lost_on_a_reused_connection_is_not_repeated(
    client: BackendClient,
) -> None:
    seen: list[str] = []

    async def handler(connection: Connection) -> None:
        while line := await connection.request():
            seen.append(line)
            if len(seen) > 1:
                return
            await connection.send(OK)

    async with server_that(handler) as server:
        assert await output_of(server, client) == "yes"
        error = await error_of(server, client)

    assert (error.code, error.stage, error.retryable) == ("connection_lost", FailureStage.TRANSPORT, True)
    assert len(seen) == 2


async def test_a_get_lost_on_a_reused_connection_is_repeated(client: BackendClient) -> None:
    """Modal redirects to the address of the result, which can be read twice."""
    looks: list[int] = []

    async def handler(connection: Connection) -> None:
        while line := await connection.request():
            if line.startswith("post"):
                await connection.send(
                    b"HTTP/1.1 303 See Other\r\nlocation: /later\r\ncontent-length: 0\r\n\r\n"
                )
                continue
            looks.append(connection.number)
            if len(looks) == 1:
                return
            await connection.send(OK)

    async with server_that(handler) as server:
        assert await output_of(server, client) == "yes"

    assert looks == [1, 2]


@pytest.mark.parametrize("place", ["http://127.0.0.2:9/x", "", "http://[", "ftp://127.0.0.1/x"])
async def test_a_redirect_to_another_origin_is_not_followed(place: str, client: BackendClient) -> None:
    answer = f"HTTP/1.1 303 See Other\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n".encode()
    async with server_that(answers_with(answer)) as server:
        assert (await error_of(server, client)).code == "bad_payload"


async def test_a_cancelled_call_closes_its_connection(client: BackendClient) -> None:
    left = asyncio.Event()

    async def handler(connection: Connection) -> None:
        await connection.request()
        await connection.request()
        left.set()

    async with server_that(handler) as server, within_timeout("the server sees the client leave"):
        call = asyncio.ensure_future(output_of(server, client))
        await until(lambda: server.accepted == 1, "the call has arrived")
        call.cancel()
        await left.wait()


async def test_a_call_cancelled_while_it_connects_is_never_sent(client: BackendClient) -> None:
    async with server_that(always_ok) as server:
        call = asyncio.ensure_future(output_of(server, client))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

        assert await output_of(server, client) == "yes"
        assert server.open == 1


async def test_a_stream_is_forwarded_piece_by_piece(client: BackendClient) -> None:
    go_on = asyncio.Event()

    async def handler(connection: Connection) -> None:
        await connection.request()
        await connection.send(EVENTS + b"data: one\n\n")
        await go_on.wait()
        await connection.send(b"data: two\n\n")

    async with server_that(handler) as server, within_timeout("the stream comes to its end"):
        sink = StreamSink()
        run = asyncio.ensure_future(backend_at("openai", server.url, client).run(CALL, sink=sink))
        assert await sink.read() == b"data: one\n\n"
        assert not run.done()
        go_on.set()
        assert await sink.read() == b"data: two\n\n"
        await run


async def test_a_stream_is_no_faster_than_its_reader(client: BackendClient) -> None:
    piece, pieces, said = b"x" * 65_536, 400, 0

    async def handler(connection: Connection) -> None:
        nonlocal said
        await connection.request()
        await connection.send(EVENTS)
        for _ in range(pieces):
            await connection.send(piece)
            said += 1

    async with server_that(handler) as server, within_timeout("all of the stream is read"):
        sink = StreamSink()
        run = asyncio.ensure_future(backend_at("openai", server.url, client).run(CALL, sink=sink))
        first = await sink.read()
        held_back = said
        read = len(first or b"")
        while read < len(piece) * pieces:
            read += len(await sink.read() or b"")
        await run

    assert held_back < pieces
    assert said == pieces


async def test_a_broken_stream_is_a_failure(client: BackendClient) -> None:
    async with server_that(answers_with(CHUNKED + b"8\r\ndata: 1\n\r\n")) as server:
        sink = StreamSink()
        with pytest.raises(BackendError) as failed:
            await backend_at("openai", server.url, client).run(CALL, sink=sink)

    assert failed.value.code == "connection_lost"
    assert sink.begun


async def test_a_refused_stream_has_an_error_status(client: BackendClient) -> None:
    refused = b"HTTP/1.1 429 Too Many\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nbusy"
    async with server_that(answers_with(refused)) as server:
        sink = StreamSink()
        with pytest.raises(BackendError) as failed:
            await backend_at("openai", server.url, client).run(CALL, sink=sink)

    assert (failed.value.code, failed.value.retry_after_s) == ("backend_busy", 7)
    assert not sink.begun


async def test_a_connect_timeout_is_an_unreachable_backend() -> None:
    """A missing TLS handshake counts as a failed connection."""

    async def silent(connection: Connection) -> None:
        await connection.reader.read()

    async with open_client() as client, server_that(silent) as server:
        server.url = server.url.replace("http://", "https://")
        backend = backend_at("modal", server.url, client, transport=BackendTransport(connect_timeout_s=0.1))
        with pytest.raises(BackendError) as failed:
            await backend.run(CALL)

    error = failed.value
    assert (error.code, error.stage, error.retryable) == ("backend_unreachable", FailureStage.TRANSPORT, True)
    assert "127.0.0.1" not in error.message


async def test_a_backend_is_called_through_its_proxy(client: BackendClient) -> None:
    seen: list[str] = []

    async def proxy(connection: Connection) -> None:
        while line := await connection.request():
            seen.append(line)
            await connection.send(OK)

    async with server_that(proxy) as server:
        transport = BackendTransport(proxy=URL(server.url))
        backend = backend_at("modal", "http://gpu.invalid", client, transport=transport)
        assert (await backend.run(CALL)).output == b'"yes"'
    assert seen == ["post http://gpu.invalid/modal http/1.1"]


async def test_a_proxy_that_refuses_is_the_backends_fault(client: BackendClient) -> None:
    refused = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 6\r\n\r\nsecret"
    for scheme in ("http", "https"):
        async with server_that(answers_with(refused)) as server:
            transport = BackendTransport(proxy=URL(server.url))
            backend = backend_at("modal", f"{scheme}://gpu.invalid", client, transport=transport)
            with pytest.raises(BackendError) as failed:
                await backend.run(CALL)
        assert failed.value.fault is not None
        assert "its proxy does not accept" in failed.value.message
        assert "secret" not in failed.value.message


async def test_a_run_ends_after_the_longest_time_of_its_backend(client: BackendClient) -> None:
    async def silent(connection: Connection) -> None:
        await connection.reader.read()

    async with server_that(silent) as server:
        with pytest.raises(BackendError) as failed:
            await backend_at("modal", server.url, client, run_timeout_s=0.1).run(CALL)
    assert (failed.value.code, failed.value.retryable) == ("run_timeout", True)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_on_the_same_origin_repeats_the_post(status: int, client: BackendClient) -> None:
    seen: list[str] = []

    async def handler(connection: Connection) -> None:
        while line := await connection.request():
            seen.append(line)
            moved = f"HTTP/1.1 {status} Moved\r\nlocation: /there\r\ncontent-length: 0\r\n\r\n"
            await connection.send(moved.encode() if len(seen) == 1 else OK)

    async with server_that(handler) as server:
        assert await output_of(server, client) == "yes"
    assert seen == ["post /modal http/1.1", "post /there http/1.1"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made with openssl")
async def test_tls_with_a_trusted_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        async with open_client() as strict:
            error = await error_of(server, strict)
            assert (error.code, error.fault is not None) == ("tls_failed", True)
            assert "self-signed certificate" in error.message
            trusting = BackendTransport(ssl.create_default_context(cafile=certificate))
            for transport in (trusting, BackendTransport(ssl=False)):
                backend = backend_at("modal", server.url, strict, transport=transport)
                assert (await backend.run(CALL)).output == b'"yes"'
            other_name = backend_at(
                "modal", server.url.replace("127.0.0.1", "localhost"), strict, transport=trusting
            )
            with pytest.raises(BackendError) as raised:
                await other_name.run(CALL)
            assert raised.value.message == "its TLS certificate is not accepted: Hostname mismatch"
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with open_client() as client:
            assert [await output_of(server, client) for _ in range(2)] == ["yes", "yes"]
            assert server.open == 1
