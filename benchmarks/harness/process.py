"""A measured system as a process group that answers commands within a timeout."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LINE_LIMIT = 16 * 1024 * 1024
LAST_WORDS = 2_000


class MeasurementError(Exception):
    """A system failed or exceeded its timeout."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to start: a module under a Python of some environment, with its settings."""

    python: Path
    module: str
    options: Mapping[str, Any] = field(default_factory=dict)
    arguments: Sequence[str] = ()


class SystemProcess:
    def __init__(self, program: Program, process: asyncio.subprocess.Process, log: Path) -> None:
        self._program = program
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, command: str, *, within_s: float, **arguments: Any) -> Any:
        """Its answer to one command."""
        if self._process.stdin is None or self._process.stdout is None:
            raise MeasurementError("the process has no pipes")
        order = json.dumps({"do": command, "with": arguments})
        self._process.stdin.write(order.encode() + b"\n")
        try:
            async with asyncio.timeout(within_s):
                line = await self._process.stdout.readline()
        except TimeoutError as error:
            raise MeasurementError(f"{self._program.module} {command}: not within {within_s:g} s") from error
        answer = json.loads(line or b'{"error": "the process ended"}')
        if "error" in answer:
            raise MeasurementError(
                f"{self._program.module} {command}: {answer['error']}\n{self._last_words()}"
            )
        return answer["answer"]

    def _last_words(self) -> str:
        with suppress(OSError):
            return self._log.read_text(encoding="utf-8", errors="replace")[-LAST_WORDS:]
        return ""


@asynccontextmanager
async def running(
    program: Program, *, database_url: str, redis_url: str, log: Path
) -> AsyncIterator[SystemProcess]:
    """Start it; at the end of the block its process group is ended."""
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            str(program.python),
            "-m",
            program.module,
            *program.arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=_environment(program, database_url, redis_url, log),
            cwd=ROOT,
            start_new_session=True,
            limit=LINE_LIMIT,
        )
    try:
        yield SystemProcess(program, process, log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _environment(program: Program, database_url: str, redis_url: str, log: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "BENCH_OPTIONS": json.dumps(dict(program.options)),
        "BENCH_ARRIVALS": str(log.with_suffix(".arrivals")),
        "BENCH_STARTS": str(log.with_suffix(".starts")),
    }
