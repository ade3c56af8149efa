"""The machine of a measurement."""

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def machine_facts() -> dict[str, str]:
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
    }


def facts_line(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _processor() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal"):
            return f"{round(int(line.split()[1]) / 1024**2)} GB"
    return "unknown"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def raise_priority() -> None:
    """Run with a higher priority where that is allowed; child processes inherit it."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)
