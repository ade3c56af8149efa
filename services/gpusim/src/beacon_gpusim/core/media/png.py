"""A PNG image of a skyline with a sun, and the prompt, the model and the seed as text below it."""

import struct
import zlib
from random import Random
from textwrap import wrap

from beacon_gpusim.core.media import font
from beacon_gpusim.core.media.padding import padding

SIZE = 384
_TEXT_SCALE = 2
_MARGIN = 10
_MAX_PROMPT_LINES = 3
_SKY = 128  # entries of the palette: a gradient
_SUN, _BAND, _INK, _DIM, _HOUSES = 128, 129, 130, 131, 132
_HOUSE_COLOURS = 4
_CHUNK_OVERHEAD = 12


def png(lines: tuple[str, str], *, seed: int, min_bytes: int = 0) -> list[bytes]:
    """The file in parts. `lines` are the prompt and what made it; both are also text chunks."""
    random = Random(seed)  # noqa: S311
    rows = _skyline(random)
    _write_text(rows, *lines)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 6)
    head = [
        b"\x89PNG\r\n\x1a\n",
        _chunk(b"IHDR", struct.pack(">IIBBBBB", SIZE, SIZE, 8, 3, 0, 0, 0)),
        _chunk(b"PLTE", _palette(random)),
        *(
            _chunk(b"iTXt", name + b"\0\0\0\0\0" + text.encode("utf-8", "replace"))
            for name, text in zip((b"Description", b"Source"), lines, strict=True)
        ),
    ]
    tail = [_chunk(b"IDAT", pixels), _chunk(b"IEND", b"")]
    missing = min_bytes - sum(map(len, head + tail)) - _CHUNK_OVERHEAD
    return head + _padding_chunk(missing) + tail


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _padding_chunk(size: int) -> list[bytes]:
    """A private chunk, which readers ignore."""
    if size <= 0:
        return []
    parts, check = padding(size), zlib.crc32(b"fiLl")
    for part in parts:
        check = zlib.crc32(part, check)
    return [struct.pack(">I", size) + b"fiLl", *parts, struct.pack(">I", check)]


def _palette(random: Random) -> bytes:
    top = [random.randrange(20, 110) for _ in range(3)]
    bottom = [random.randrange(150, 256) for _ in range(3)]
    sky = [
        bytes(a + (b - a) * step // (_SKY - 1) for a, b in zip(top, bottom, strict=True))
        for step in range(_SKY)
    ]
    houses = [bytes(value // (2 + shade) for value in top) for shade in range(_HOUSE_COLOURS)]
    return b"".join([*sky, b"\xff\xf1\xc4", b"\x12\x16\x1d", b"\xff\xff\xff", b"\xa9\xb4\xc4", *houses])


def _skyline(random: Random) -> list[bytearray]:
    gradient = bytes(step * _SKY // (2 * SIZE) for step in range(2 * SIZE))
    direction = random.choice((1, -1))
    rows = [bytearray(gradient[y : y + SIZE][::direction]) for y in range(SIZE)]
    _draw_sun(rows, random.randrange(60, SIZE - 60), random.randrange(50, 150), random.randrange(18, 42))
    left = 0
    while left < SIZE:
        width, height = random.randrange(18, 52), random.randrange(40, 190)
        colour = bytes([_HOUSES + random.randrange(_HOUSE_COLOURS)])
        for row in rows[SIZE - 90 - height :]:
            row[left : min(SIZE, left + width)] = colour * (min(SIZE, left + width) - left)
        left += width
    return rows


def _draw_sun(rows: list[bytearray], centre_x: int, centre_y: int, radius: int) -> None:
    for y in range(centre_y - radius, centre_y + radius + 1):
        half = int((radius**2 - (y - centre_y) ** 2) ** 0.5)
        rows[y][centre_x - half : centre_x + half] = bytes([_SUN]) * (2 * half)


def _write_text(rows: list[bytearray], prompt: str, source: str) -> None:
    """On a band at the lower edge; a long prompt is cut."""
    per_line = (SIZE - 2 * _MARGIN) // (font.WIDTH * _TEXT_SCALE)
    lines = wrap(prompt, per_line)[:_MAX_PROMPT_LINES] or [""]
    height = (len(lines) + 1) * font.HEIGHT * _TEXT_SCALE + 2 * _MARGIN
    for row in rows[SIZE - height :]:
        row[:] = bytes([_BAND]) * SIZE
    top = SIZE - height + _MARGIN
    for text, colour in [*((line, _INK) for line in lines), (source[:per_line], _DIM)]:
        _draw_line(rows, text, top, colour)
        top += font.HEIGHT * _TEXT_SCALE


def _draw_line(rows: list[bytearray], text: str, top: int, colour: int) -> None:
    dot = bytes([colour]) * _TEXT_SCALE
    for position, character in enumerate(text):
        for column, bits in enumerate(font.columns_of(character)):
            x = _MARGIN + (position * font.WIDTH + column) * _TEXT_SCALE
            for bit in range(8):
                if bits >> bit & 1:
                    for row in rows[top + bit * _TEXT_SCALE : top + (bit + 1) * _TEXT_SCALE]:
                        row[x : x + _TEXT_SCALE] = dot
