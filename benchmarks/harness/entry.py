"""A system on the list: what to start, and how much to give it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.process import Program


@dataclass(frozen=True, slots=True)
class Entry:
    """`jobs` is what it drains in a second or two; of `variants` the best is found before the rounds."""

    name: str
    python: Path
    module: str
    variants: Sequence[Mapping[str, Any]] = ({},)
    jobs: int = 10_000
    pickups: int = 100
    migrated: bool = True

    def program(self, variant: Mapping[str, Any]) -> Program:
        return Program(self.python, self.module, variant)
