"""Types of files by their content."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_files import OCTET_STREAM, content_type_of

WAV = b"RIFF\x24\x00\x00\x00WAVEfmt "


@pytest.mark.parametrize(
    ("head", "content_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "image/jpeg"),
        (WAV, "audio/wav"),
        (b"glTF\x02\x00\x00\x00", "model/gltf-binary"),
        (b'{"a": 1}', "application/json"),
        ("Grüße\n".encode(), "text/plain; charset=utf-8"),
        ("ü".encode() * 2_048 + b"\xc3", "text/plain; charset=utf-8"),
        (b"", OCTET_STREAM),
        (b"\x00\x01\x02", OCTET_STREAM),
        (b"%PDF-1.7", OCTET_STREAM),
    ],
)
def test_known_types(head: bytes, content_type: str) -> None:
    assert content_type_of(head) == content_type


@pytest.mark.parametrize(
    "page", [b"<!DOCTYPE html><script>", b"<html>", b"<svg onload=alert(1)>", b"<?xml version='1.0'?>"]
)
def test_pages_are_plain_text_or_bytes(page: bytes) -> None:
    assert content_type_of(page) in {"text/plain; charset=utf-8", OCTET_STREAM}


@given(st.binary(max_size=5_000))
def test_no_content_is_a_type_that_a_browser_executes(head: bytes) -> None:
    assert not any(name in content_type_of(head) for name in ("html", "svg", "xml", "javascript", "flash"))
