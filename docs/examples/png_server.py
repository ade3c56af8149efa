"""A model server of one's own: `python -m uvicorn png_server:app --port 9000` answers PNG images."""

import struct
import zlib

from fastapi import FastAPI
from fastapi.responses import Response
from pydantic import BaseModel

app = FastAPI()


class Prompt(BaseModel):
    prompt: str
    size: int = 64


@app.post("/generate")
def generate(request: Prompt) -> Response:
    """Where a real server runs its model, this one paints a colour that depends on the prompt."""
    colour = zlib.crc32(request.prompt.encode()).to_bytes(4, "big")[:3]
    return Response(png(request.size, colour), media_type="image/png")


def png(size: int, colour: bytes) -> bytes:
    rows = (b"\0" + colour * size) * size
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    chunks = (struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
