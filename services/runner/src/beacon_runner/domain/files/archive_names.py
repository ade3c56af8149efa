"""Names of a job's output files in an archive: one folder per execution, no path that leaves it."""

import re
from collections.abc import Mapping
from typing import Any

from beacon_runner.domain.execution.plan import execution_keys
from beacon_runner.domain.files.files import OutputPlace

_UNSAFE = re.compile(r"[^\w. -]+")
MAX_PART = 100


class ArchiveNames:
    """Give the files in the order of their executions. Names are unique also where case is ignored."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._is_pipeline = "steps" in spec
        self._keys = execution_keys(spec)
        self._key = next(self._keys)
        self._used: set[str] = set()

    def of(self, place: OutputPlace, name: str) -> str:
        """`q1/flux-US/image.png`."""
        while (self._key.stage, self._key.ordinal) != (place.stage, place.ordinal):
            self._key = next(self._keys)
        key = self._key
        stage = f"{key.stage + 1}-" if self._is_pipeline else ""
        folder = f"{stage}{safe_part(key.item)}/{safe_part(f'{key.model}-{key.region}')}"
        return self._unused(folder, safe_part(name))

    def _unused(self, folder: str, file: str) -> str:
        stem, dot, ending = file.rpartition(".")
        if not stem:
            stem, dot, ending = file, "", ""
        path, number = f"{folder}/{file}", 1
        while path.casefold() in self._used:
            number += 1
            path = f"{folder}/{stem} ({number}){dot}{ending}"
        self._used.add(path.casefold())
        return path


def safe_part(text: str) -> str:
    """A name without separators and control characters that no system reads as a path or hides."""
    return _UNSAFE.sub("-", text)[-MAX_PART:].strip(". ") or "file"
