"""A load of requests from a separate process, over raw connections, so that its cost is not measured.

    python -m benchmarks.router.generator <url> <shape> <requests> <in flight> [token]

The first answers of each connection are not counted: it prints a line when counting begins, and at the end
one JSON object with the seconds it took and two percentiles of the latencies. The latency of a streamed
response is the time to its first token. It is short, because of what is
longer than a pipe Python without a buffer loses the end, when a signal comes while it is written.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Iterator
from typing import cast
from urllib.parse import urlsplit

import uvloop

from benchmarks.harness.statistics import percentile

END = b"\r\n\r\n"
UNCOUNTED_EACH = 3
LENGTH = b"content-length: "
TOKEN, STREAM_END = b"data: {", b"data: [DONE]"
PROMPT = "Why is the sky blue, and what would change if it were not?"


def body(shape: str, number: int) -> bytes:
    """The same prompt in the format of each server."""
    name = f"bench-{time.monotonic_ns()}-{number}"
    shapes: dict[str, dict[str, object]] = {
        "inference": {"request_id": name, "model": "m", "region": "US", "input": {"prompt": PROMPT}},
        "modal": {"request_id": name, "model": "m", "input": {"prompt": PROMPT}, "params": {}},
        "chat": {"model": "m", "messages": [{"role": "user", "content": PROMPT}]},
        "chat_stream": {"model": "m", "messages": [{"role": "user", "content": PROMPT}], "stream": True},
    }
    return json.dumps(shapes[shape]).encode()


def request(url: str, shape: str, number: int, token: str) -> bytes:
    parts = urlsplit(url)
    content = body(shape, number)
    lines = [
        f"POST {parts.path} HTTP/1.1",
        f"host: {parts.netloc}",
        "content-type: application/json",
        f"content-length: {len(content)}",
        f"authorization: Bearer {token}",
    ]
    return "\r\n".join(lines).encode() + END + content


class Count:
    """Responses so far; the first `uncounted` ones are the warm-up."""

    def __init__(self, uncounted: int) -> None:
        self._uncounted = uncounted
        self.latencies: list[float] = []
        self.started = 0.0

    def answered(self, latency: float) -> None:
        if self._uncounted == 0:
            self.latencies.append(latency)
            return
        self._uncounted -= 1
        if self._uncounted == 0:
            sys.stdout.write("counting\n")
            sys.stdout.flush()
            self.started = time.perf_counter()


class Caller(asyncio.Protocol):
    """One connection: the next request is sent after the last response."""

    transport: asyncio.Transport

    def __init__(self, requests: Iterator[bytes], count: Count) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests = requests
        self._count = count
        self._received = b""
        self._sent = 0.0
        self._first_token = 0.0

    def itself(self) -> "Caller":
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def begin(self) -> None:
        following = next(self._requests, None)
        if following is None:
            if not self.ended.done():
                self.ended.set_result(None)
            return
        self._first_token = 0.0
        self._sent = time.perf_counter()
        self.transport.write(following)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._first_token and TOKEN in self._received:
            self._first_token = time.perf_counter()
        if not complete(self._received):
            return
        answer, self._received = self._received, b""
        self._count.answered((self._first_token or time.perf_counter()) - self._sent)
        if answer[9:12] != b"200" or (self._first_token and STREAM_END not in answer):
            self._fail(RuntimeError(answer[:500].decode(errors="replace")))
        else:
            self.begin()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionError("the server closed the connection"))

    def _fail(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)


def complete(received: bytes) -> bool:
    head = received.find(END)
    if head < 0:
        return False
    lower = received[:head].lower()
    start = lower.find(LENGTH)
    if start < 0:
        # A chunked answer ends with an empty chunk.
        return received.endswith(b"0\r\n\r\n")
    line_end = lower.find(b"\r\n", start)
    length = lower[start + len(LENGTH) : line_end if line_end > 0 else None]
    return len(received) >= head + len(END) + int(length)


async def load(url: str, shape: str, wanted: int, in_flight: int, token: str) -> dict[str, object]:
    parts = urlsplit(url)
    uncounted = in_flight * UNCOUNTED_EACH
    requests = [request(url, shape, number, token) for number in range(wanted + uncounted)]
    count = Count(uncounted)
    following = iter(requests)
    loop = asyncio.get_running_loop()
    callers = [Caller(following, count) for _ in range(in_flight)]
    for caller in callers:
        await loop.create_connection(caller.itself, parts.hostname or "", parts.port or 80)
    gc.freeze()
    for caller in callers:
        caller.begin()
    await asyncio.gather(*(caller.ended for caller in callers))
    seconds = time.perf_counter() - count.started
    for caller in callers:
        caller.transport.close()
    p50, p99 = (percentile(count.latencies, percent) * 1000 for percent in (50, 99))
    return {"seconds": seconds, "p50_ms": p50, "p99_ms": p99}


def main() -> None:
    url, shape, count, in_flight, token = (*sys.argv[1:], "")[:5]
    result = uvloop.run(load(url, shape, int(count), int(in_flight), token))
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
