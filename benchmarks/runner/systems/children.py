"""Server processes of a system, which end with its process group."""

import asyncio
import os
import sys
from pathlib import Path

from benchmarks.harness.system import until

READY_WITHIN_S = 30.0


async def start(*arguments: str, environment: dict[str, str] | None = None) -> asyncio.subprocess.Process:
    """A Python module of ours."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", *arguments, env={**os.environ, **(environment or {})}
    )


async def address_in(file: Path) -> str:
    """The address that a server writes there once it serves."""

    async def there() -> bool:
        return await asyncio.to_thread(file.exists)

    async with asyncio.timeout(READY_WITHIN_S):
        await until(there, 0.02)
    return await asyncio.to_thread(file.read_text, encoding="utf-8")


def scratch(name: str) -> Path:
    """A file next to this run's log."""
    return Path(os.environ["BENCH_ARRIVALS"]).with_suffix(f".{name}")
