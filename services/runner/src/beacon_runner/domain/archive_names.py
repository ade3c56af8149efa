"""Names of a job's output files in an archive: one folder per execution, no path that leaves it."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from beacon_runner.domain.files import OutputPlace
from beacon_runner.domain.plan import execution_keys

_UNSAFE = re.compile(r"[^\w. -]+")
MAX_PART = 100


class ArchiveNames:
    """Give the files in the order of their executions: names are unique within one execution."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._is_pipeline = "steps" in spec
        self._keys = execution_keys(spec)
        self._key = next(self._keys)
        self._used: Counter[str] = Counter()

    def of(self, place: OutputPlace, name: str) -> str:
        """`q1/flux-US/image.png`."""
        while (self._key.stage, self._key.ordinal) != (place.stage, place.ordinal):
            self._key = next(self._keys)
            self._used.clear()
        key, file = self._key, safe_part(name)
        self._used[file.casefold()] += 1
        if (number := self._used[file.casefold()]) > 1:
            stem, dot, ending = file.rpartition(".")
            file = f"{stem} ({number}).{ending}" if dot and stem else f"{file} ({number})"
        stage = f"{key.stage + 1}-" if self._is_pipeline else ""
        return f"{stage}{safe_part(key.item)}/{safe_part(f'{key.model}-{key.region}')}/{file}"


def safe_part(text: str) -> str:
    """A name without separators and control characters that no system reads as a path or hides."""
    return _UNSAFE.sub("-", text)[-MAX_PART:].strip(". ") or "file"
