"""Media of the simulated models: valid files, repeatable, of at least the requested size."""

import io
import json
import struct
import wave
import zlib

import pytest

from beacon_gpusim.core.media import MediaKind, media_of
from beacon_gpusim.core.media.font import columns_of
from beacon_gpusim.core.outputs import Prompt

CITY = Prompt("flux", "EU", "A city at dusk", duration_s=1.5, seed=7)
LARGE = 200_001


def content(kind: MediaKind, prompt: Prompt = CITY, min_bytes: int = 0) -> bytes:
    return b"".join(media_of(kind, prompt, min_bytes=min_bytes).parts)


def png_chunks(data: bytes) -> dict[bytes, list[bytes]]:
    """The chunks of a PNG file by name; asserts their checksums."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    found: dict[bytes, list[bytes]] = {}
    at = 8
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(name + body)
        found.setdefault(name, []).append(body)
        at += 12 + size
    return found


def glb_document(data: bytes) -> tuple[dict[str, object], bytes]:
    magic, version, total, size, name = struct.unpack("<4sIII4s", data[:20])
    assert (magic, version, total, name) == (b"glTF", 2, len(data), b"JSON")
    binary_size, binary_name = struct.unpack("<I4s", data[20 + size : 28 + size])
    assert (binary_name, 28 + size + binary_size) == (b"BIN\0", len(data))
    document: dict[str, object] = json.loads(data[20 : 20 + size])
    return document, data[28 + size :]


@pytest.mark.parametrize("min_bytes", [0, LARGE])
def test_an_image_has_the_prompt_the_model_and_the_seed_as_text(min_bytes: int) -> None:
    chunks = png_chunks(content(MediaKind.IMAGE, min_bytes=min_bytes))
    width, height, depth, colours = struct.unpack(">IIBB", chunks[b"IHDR"][0][:10])
    assert (depth, colours) == (8, 3)
    pixels = zlib.decompress(chunks[b"IDAT"][0])
    assert len(pixels) == (width + 1) * height
    assert max(pixels) < len(chunks[b"PLTE"][0]) // 3
    texts = [text.partition(b"\0\0\0\0\0")[2].decode() for text in chunks[b"iTXt"]]
    assert texts == [CITY.text, "flux, seed 7"]


def test_text_is_drawn_into_the_image() -> None:
    images = {content(MediaKind.IMAGE, Prompt("flux", "EU", text, seed=1)) for text in ("one", "two")}
    drawn = {png_chunks(image)[b"IDAT"][0] for image in images}
    assert len(drawn) == 2
    assert columns_of("I") == bytes.fromhex("00417f4100")
    assert columns_of("é") == columns_of("?")


@pytest.mark.parametrize("min_bytes", [0, LARGE])
def test_a_sound_has_the_requested_duration(min_bytes: int) -> None:
    with wave.open(io.BytesIO(content(MediaKind.AUDIO, min_bytes=min_bytes))) as sound:
        assert sound.getnframes() / sound.getframerate() == CITY.duration_s
        assert any(sound.readframes(4_000))


@pytest.mark.parametrize("min_bytes", [0, LARGE])
def test_a_model_has_its_geometry_and_its_origin(min_bytes: int) -> None:
    document, binary = glb_document(content(MediaKind.MODEL, min_bytes=min_bytes))
    assert document["asset"]["extras"] == {"prompt": CITY.text, "model": "flux", "seed": 7, "inputs": {}}  # type: ignore[index]
    assert document["buffers"] == [{"byteLength": len(binary)}]
    position = document["accessors"][0]  # type: ignore[index]
    points = list(struct.iter_unpack("<3f", binary[: position["count"] * 12]))
    assert [min(axis) for axis in zip(*points, strict=True)] == position["min"]
    assert [max(axis) for axis in zip(*points, strict=True)] == position["max"]


@pytest.mark.parametrize("kind", MediaKind)
def test_the_same_prompt_model_and_seed_give_the_same_file(kind: MediaKind) -> None:
    same = Prompt("flux", "US", CITY.text, duration_s=1.5, seed=7)
    assert content(kind, same) == content(kind)
    assert content(kind, Prompt("flux", "EU", CITY.text, duration_s=1.5, seed=8)) != content(kind)
    large = media_of(kind, CITY, min_bytes=LARGE)
    assert LARGE <= large.size <= LARGE + 2_000
