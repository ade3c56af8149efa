"""The router's core as images run it, where `make compiled` has built it."""

from typing import Final

from benchmarks.harness.process import ROOT

BUILT: Final = ROOT / ".compiled"
ENVIRONMENT: Final = {"PYTHONPATH": str(BUILT)}
"""Of a process that runs it."""


def built() -> bool:
    return BUILT.is_dir()
