"""A backend with negligible cost: raw connections, fixed responses, each after the same delay.

python -m benchmarks.router.backend <port> <delay in seconds>
"""

import asyncio
import json
import sys
from typing import cast

import uvloop

END = b"\r\n\r\n"
LENGTH = b"content-length: "
TEXT = "Because air scatters short waves more than long ones."


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
        reply = CHAT if b"/chat/completions " in self._received[:200] else MODAL
        self._received = b""
        if self._delay_s:
            self._loop.call_later(self._delay_s, self._transport.write, reply)
        else:
            self._transport.write(reply)

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
