"""A measured system: its program and its number of jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.process import Program


@dataclass(frozen=True, slots=True)
class Entry:
    """`jobs`: how many it drains in one to two seconds. The best of `variants` is found before the rounds."""

    name: str
    python: Path
    module: str
    variants: Sequence[Mapping[str, Any]] = ({},)
    jobs: int = 10_000
    pickups: int = 100
    migrated: bool = True

    def program(self, variant: Mapping[str, Any]) -> Program:
        return Program(self.python, self.module, variant)
