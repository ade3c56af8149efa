"""`python -m benchmarks.files.backend PORT BYTES`: a backend whose answers are large and cost it nothing."""

import asyncio
import os
import sys
from base64 import b64encode

SLICE_BYTES = 262_144
FIRST_BYTES = 300_000
"""Of a small file, which the file store writes in parts, as it does large ones."""
HEALTHY = (b"text/plain", b"ok")


async def main(port: int, size: int) -> None:
    data = os.urandom(size)
    encoded = b'{"output": {"image": "' + b64encode(data) + b'"}}'
    answers = {
        b"first": (b"application/octet-stream", os.urandom(FIRST_BYTES)),
        b"binary": (b"application/octet-stream", data),
        b"base64": (b"application/json", encoded),
    }

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                if b"content-length: " in head:
                    await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
                kind, body = answers.get(head.split(b" ")[1].strip(b"/"), HEALTHY)
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, len(body))
                )
                for start in range(0, len(body), SLICE_BYTES):
                    writer.write(memoryview(body)[start : start + SLICE_BYTES])
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
