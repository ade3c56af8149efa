"""A GLB file (glTF 2.0) with one coloured gem. Its `asset.extras` name the prompt, the model and the seed."""

import json
import math
import struct
from collections.abc import Mapping
from itertools import pairwise
from random import Random
from typing import Any

from beacon_gpusim.core.media.padding import padding

_FLOAT, _ARRAY_BUFFER, _TRIANGLES = 5126, 34962, 4

Point = tuple[float, float, float]


def glb(extras: Mapping[str, Any], *, seed: int, min_bytes: int = 0) -> list[bytes]:
    """The file in parts."""
    random = Random(seed)  # noqa: S311
    triangles = _gem(random)
    points = [point for triangle in triangles for point in triangle]
    normals = [_normal(triangle) for triangle in triangles for _ in triangle]
    geometry = b"".join(struct.pack("<3f", *point) for point in points + normals)
    colour = [round(random.uniform(0.2, 0.95), 3) for _ in range(3)]
    missing = max(0, min_bytes - len(geometry) + 3) // 4 * 4
    document = _document(points, len(geometry), colour, extras, size=len(geometry) + missing)
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    size = len(geometry) + missing
    return [
        struct.pack("<4sII", b"glTF", 2, 12 + 8 + len(text) + 8 + size),
        struct.pack("<I4s", len(text), b"JSON") + text,
        struct.pack("<I4s", size, b"BIN\0") + geometry,
        *padding(missing),
    ]


def _gem(random: Random) -> list[tuple[Point, Point, Point]]:
    """A ring of corners with a tip above and one below."""
    count = random.randrange(5, 10)
    top, bottom = (0.0, random.uniform(0.7, 1.3), 0.0), (0.0, -random.uniform(0.7, 1.3), 0.0)
    ring = []
    for index in range(count):
        angle, radius = 2 * math.pi * index / count, random.uniform(0.6, 1.1)
        ring.append((radius * math.cos(angle), random.uniform(-0.2, 0.2), radius * math.sin(angle)))
    edges = list(pairwise([*ring, ring[0]]))
    return [(b, a, top) for a, b in edges] + [(a, b, bottom) for a, b in edges]


def _normal(triangle: tuple[Point, Point, Point]) -> Point:
    a, b, c = triangle
    u, v = [b[i] - a[i] for i in range(3)], [c[i] - a[i] for i in range(3)]
    cross = (u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0])
    length = math.hypot(*cross) or 1.0
    return cross[0] / length, cross[1] / length, cross[2] / length


def _document(
    points: list[Point], geometry_bytes: int, colour: list[float], extras: Mapping[str, Any], *, size: int
) -> dict[str, Any]:
    half = geometry_bytes // 2
    accessor = {"componentType": _FLOAT, "count": len(points), "type": "VEC3"}
    rounded = struct.unpack(f"<{3 * len(points)}f", struct.pack(f"<{3 * len(points)}f", *sum(points, ())))
    axes = [rounded[axis::3] for axis in range(3)]
    return {
        "asset": {"version": "2.0", "generator": "gpusim", "extras": dict(extras)},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [
            {"primitives": [{"attributes": {"POSITION": 0, "NORMAL": 1}, "material": 0, "mode": _TRIANGLES}]}
        ],
        "materials": [{"pbrMetallicRoughness": {"baseColorFactor": [*colour, 1.0], "metallicFactor": 0.1}}],
        "accessors": [
            {
                **accessor,
                "bufferView": 0,
                "min": [min(axis) for axis in axes],
                "max": [max(axis) for axis in axes],
            },
            {**accessor, "bufferView": 1},
        ],
        "bufferViews": [
            {"buffer": 0, "byteOffset": 0, "byteLength": half, "target": _ARRAY_BUFFER},
            {"buffer": 0, "byteOffset": half, "byteLength": half, "target": _ARRAY_BUFFER},
        ],
        "buffers": [{"byteLength": size}],
    }
