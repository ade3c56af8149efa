"""A WAV file with a melody of the requested duration: 8 kHz, 16 bit, mono."""

import math
import struct
from random import Random

from beacon_gpusim.core.media.padding import padding

RATE = 8_000
_NOTE_S = 0.25
_SCALE_HZ = (220.0, 246.94, 293.66, 329.63, 392.0, 440.0)
_VOLUME = 9_000
_CHUNK_HEAD = 8


def wav(seconds: float, *, seed: int, min_bytes: int = 0) -> list[bytes]:
    """The file in parts; each note is computed once."""
    random = Random(seed)  # noqa: S311
    count = max(1, round(seconds * RATE))
    notes = [_note(pitch) for pitch in _SCALE_HZ]
    melody = [random.choice(notes) for _ in range(16)]
    per_note = len(notes[0])
    samples = [melody[index % len(melody)] for index in range(count * 2 // per_note)]
    samples.append(melody[-1][: count * 2 % per_note])
    form = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, RATE, RATE * 2, 2, 16)
    data = b"data" + struct.pack("<I", count * 2)
    missing = (min_bytes - 12 - len(form) - len(data) - count * 2 - _CHUNK_HEAD + 1) // 2 * 2
    filler = [b"JUNK" + struct.pack("<I", missing), *padding(missing)] if missing > 0 else []
    parts = [b"WAVE", form, *filler, data, *samples]
    return [b"RIFF" + struct.pack("<I", sum(map(len, parts))), *parts]


def _note(pitch_hz: float) -> bytes:
    count = int(RATE * _NOTE_S)
    wave = []
    for index in range(count):
        fade = min(1.0, index / 80) * (1 - index / count)
        wave.append(int(_VOLUME * fade * math.sin(2 * math.pi * pitch_hz * index / RATE)))
    return struct.pack(f"<{count}h", *wave)
