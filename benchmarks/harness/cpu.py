"""CPU seconds of process trees, which vary less than wall time on a busy machine."""

from collections.abc import Mapping
from contextlib import suppress

import psutil


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and all its children, ended ones included."""
    total = 0.0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
        for child in process.children(recursive=True):
            with suppress(psutil.Error):
                own = child.cpu_times()
                total += own.user + own.system
    return total


class CpuMeter:
    """The difference between two readings, by name."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._before = self._read()

    def used(self) -> dict[str, float]:
        now = self._read()
        return {name: now[name] - self._before[name] for name in self._pids}

    def _read(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self._pids.items()}
