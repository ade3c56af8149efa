"""The output of the router's load generator is complete, also when it is signalled."""

import asyncio
import fcntl
import json
import os
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator

import pytest

from tests.fixtures.waiting import until

REQUESTS = 4_000
FULL_PIPE = 65_536
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@pytest.fixture
async def address() -> AsyncIterator[str]:
    async def answer_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            writer.write(ANSWER)
        writer.close()

    server = await asyncio.start_server(answer_each, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def waiting_bytes(pipe: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"))[0])


async def test_output_is_complete_when_the_generator_is_stopped_while_writing(address: str) -> None:
    """Without a buffer, Python takes a write for done that a signal has cut short where the pipe was full.

    What fits into PIPE_BUF is written whole or not at all.
    """
    ours, theirs = os.pipe()
    generator = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.router.generator", address, "modal", str(REQUESTS), "4"),
        stdout=theirs,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    os.close(theirs)
    with os.fdopen(ours, "rb") as output:
        await until(
            lambda: generator.returncode is not None or waiting_bytes(ours) == FULL_PIPE,
            "it has said all it can",
        )
        if generator.returncode is None:
            generator.send_signal(signal.SIGSTOP)
            generator.send_signal(signal.SIGCONT)
        counting, result = await asyncio.to_thread(output.readlines)
    assert await generator.wait() == 0
    assert counting == b"counting\n"
    assert set(json.loads(result)) == {"seconds", "p50_ms", "p99_ms"}
