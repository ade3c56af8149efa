"""The media of one prompt, and the fields that carry it in a JSON response."""

from base64 import b64encode
from dataclasses import dataclass
from typing import Any, assert_never

from beacon_gpusim.core.media.glb import glb
from beacon_gpusim.core.media.png import png
from beacon_gpusim.core.media.spec import CONTENT_TYPES, Delivery, MediaKind, MediaSpec
from beacon_gpusim.core.media.wav import wav
from beacon_gpusim.core.outputs import Prompt, quoted

_DEFAULT_DURATION_S = 2.0


@dataclass(frozen=True, slots=True)
class Media:
    """A file in parts, so that a large one needs little memory."""

    content_type: str
    parts: list[bytes]

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))


def media_of(kind: MediaKind, prompt: Prompt, *, min_bytes: int = 0) -> Media:
    """The file for a prompt: the same bytes for the same prompt, model and seed."""
    seed = prompt.seed_or_default()
    source = f"{prompt.model}, seed {seed}"
    text = quoted(prompt.text)
    match kind:
        case MediaKind.IMAGE:
            parts = png((text, source), seed=seed, min_bytes=min_bytes)
        case MediaKind.AUDIO:
            seconds = prompt.duration_s or _DEFAULT_DURATION_S
            parts = wav(seconds, seed=seed, min_bytes=min_bytes)
        case MediaKind.MODEL:
            extras = {"prompt": text, "model": prompt.model, "seed": seed, "inputs": prompt.inputs}
            parts = glb(extras, seed=seed, min_bytes=min_bytes)
        case _:
            assert_never(kind)
    return Media(CONTENT_TYPES[kind], parts)


def media_fields(spec: MediaSpec, prompt: Prompt, url: str, *, min_bytes: int) -> dict[str, Any]:
    """The fields of a JSON response; `url` is where this simulator serves the file."""
    if spec.delivery is Delivery.URL:
        return {f"{spec.kind}_url": url}
    media = media_of(spec.kind, prompt, min_bytes=min_bytes)
    text = b64encode(b"".join(media.parts)).decode()
    if spec.delivery is Delivery.DATA_URL:
        return {str(spec.kind): f"data:{media.content_type};base64,{text}"}
    return {str(spec.kind): text, "content_type": media.content_type}
