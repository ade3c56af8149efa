"""A backend with negligible cost: raw connections, fixed responses, each after the same delay.

A streamed chat completion has its first token after the delay, and the next ones at fixed intervals.

python -m benchmarks.router.backend <port> <delay in seconds>
"""

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from typing import cast

import uvloop

END = b"\r\n\r\n"
LENGTH = b"content-length: "
TEXT = "Because air scatters short waves more than long ones."
TOKEN_EVERY_S = 0.005
STREAMED = re.compile(rb'"stream":\s*true')


def answer(document: dict[str, object]) -> bytes:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}".encode()
    return head + END + body


MODAL = answer({"success": True, "output": TEXT, "metrics": {"load_s": 0.0, "run_s": 0.0}})
CHAT = answer(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 13, "completion_tokens": 9, "total_tokens": 22},
    }
)


def stream(words: Sequence[str]) -> list[bytes]:
    """The head with the first token, then a part for each further token."""
    parts = []
    for number, word in enumerate(words):
        last = number == len(words) - 1
        choice = {
            "index": 0,
            "delta": {"role": "assistant", "content": f"{word} "},
            "finish_reason": "stop" if last else None,
        }
        chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        event = b"data: %s\n\n" % json.dumps(chunk | {"choices": [choice]}).encode()
        event += b"data: [DONE]\n\n" if last else b""
        parts.append(b"%x\r\n%s\r\n" % (len(event), event) + (b"0\r\n\r\n" if last else b""))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked"
    return [head + END + parts[0], *parts[1:]]


CHAT_STREAM = stream(TEXT.split())


class Backend(asyncio.Protocol):
    """Answers one request at a time on each connection."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(END)
        if head < 0 or len(self._received) < head + len(END) + self._body_length(head):
            return
        chat = b"/chat/completions " in self._received[:200]
        streamed = chat and STREAMED.search(self._received, head) is not None
        self._received = b""
        if streamed:
            for number, part in enumerate(CHAT_STREAM):
                self._loop.call_later(self._delay_s + number * TOKEN_EVERY_S, self._transport.write, part)
        elif self._delay_s:
            self._loop.call_later(self._delay_s, self._transport.write, CHAT if chat else MODAL)
        else:
            self._transport.write(CHAT if chat else MODAL)

    def _body_length(self, head: int) -> int:
        lower = self._received[:head].lower() + b"\r\n"
        start = lower.find(LENGTH)
        return int(lower[start + len(LENGTH) : lower.index(b"\r\n", start)]) if start > 0 else 0


async def serve(port: int, delay_s: float) -> None:
    server = await asyncio.get_running_loop().create_server(
        lambda: Backend(delay_s), "127.0.0.1", port, backlog=1024
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), float(sys.argv[2])))
