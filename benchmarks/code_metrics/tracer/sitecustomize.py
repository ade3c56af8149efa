"""Loaded by every Python process of the traced system: records the project's own calls between two signals.

SIGUSR1 starts a recording; SIGUSR2 ends it and writes it to BEACON_TRACE_DIR/<module>.json.
"""

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

FOLDER = os.environ.get("BEACON_TRACE_DIR")
SOURCES = os.environ.get("BEACON_TRACE_SOURCES", "").split(os.pathsep)
ANONYMOUS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
GENERATOR_FLAGS = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator

calls: Counter[tuple[str, str]] = Counter()
records: Counter[str] = Counter()


def module_name() -> str | None:
    """The package that this process runs (`python -m beacon_runner all`)."""
    arguments = sys.orig_argv
    return arguments[arguments.index("-m") + 1] if "-m" in arguments[:-1] else None


def profile(frame: FrameType, event: str, _: Any) -> None:
    if event != "call":
        return
    code = frame.f_code
    if code.co_name == "__init__" and code.co_filename == "<string>":
        owner = type(frame.f_locals["self"])
        if owner.__module__.startswith("beacon_"):
            records[f"{owner.__module__}.{owner.__qualname__}"] += 1
    elif (
        code.co_filename.startswith(tuple(SOURCES)) and code.co_name not in ANONYMOUS and _starts(frame, code)
    ):
        calls[code.co_filename, code.co_qualname] += 1


def _starts(frame: FrameType, code: CodeType) -> bool:
    """Not a coroutine that continues after an await (its RESUME instruction has an argument above 0)."""
    return not code.co_flags & GENERATOR_FLAGS or code.co_code[frame.f_lasti + 1] == 0


def start(*_: Any) -> None:
    calls.clear()
    records.clear()
    sys.setprofile(profile)


def stop(*_: Any) -> None:
    sys.setprofile(None)
    called = [[file, name, count] for (file, name), count in calls.items()]
    target = Path(str(FOLDER)) / f"{module_name()}.json"
    temporary = target.with_suffix(".part")
    temporary.write_text(json.dumps({"calls": called, "records": records}), encoding="utf-8")
    temporary.replace(target)


if FOLDER and module_name() in {"beacon_runner", "beacon_router"}:
    signal.signal(signal.SIGUSR1, start)
    signal.signal(signal.SIGUSR2, stop)
