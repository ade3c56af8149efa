"""Which models return media, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class MediaKind(StrEnum):
    IMAGE = "image"
    AUDIO = "audio"
    MODEL = "model"


class Delivery(StrEnum):
    BINARY = "binary"  # the bytes are the body
    BASE64 = "base64"  # a JSON field
    DATA_URL = "data_url"  # a JSON field
    URL = "url"  # a JSON field with an address of this simulator


@dataclass(frozen=True, slots=True)
class MediaSpec:
    """`min_bytes`: smaller files are padded to this size and stay valid."""

    kind: MediaKind
    delivery: Delivery = Delivery.BINARY
    min_bytes: int = 0


SUFFIXES = {MediaKind.IMAGE: "png", MediaKind.AUDIO: "wav", MediaKind.MODEL: "glb"}
CONTENT_TYPES = {
    MediaKind.IMAGE: "image/png",
    MediaKind.AUDIO: "audio/wav",
    MediaKind.MODEL: "model/gltf-binary",
}

DEFAULT_MEDIA: Mapping[str, MediaSpec] = {
    "flux": MediaSpec(MediaKind.IMAGE),
    "sdxl": MediaSpec(MediaKind.IMAGE),
    "image_gen": MediaSpec(MediaKind.IMAGE),
    "music": MediaSpec(MediaKind.AUDIO),
    "audio": MediaSpec(MediaKind.AUDIO),
    "model_3d_gen": MediaSpec(MediaKind.MODEL),
}
