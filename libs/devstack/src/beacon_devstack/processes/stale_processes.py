"""Ends processes of an earlier run that was killed. Call it only while holding the home."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

GRACE_S = 10.0
POLL_S = 0.05


async def end_servers_in(data: Path, name: str) -> int:
    """End the servers called `name` whose working directory is this data directory."""
    return await _end([process for process in psutil.process_iter() if _works_in(process, data, name)])


async def end_recorded_processes(run: Path, *, marker: str) -> int:
    """End the children that left pid files behind and have `marker` in their command lines."""
    left = _pid_files(run)
    count = await _end([process for file in left for process in _recorded(file, marker)])
    for file in left:
        file.unlink(missing_ok=True)
    return count


def _pid_files(run: Path) -> list[Path]:
    return list(run.glob("*.pid"))


def _works_in(process: psutil.Process, data: Path, name: str) -> bool:
    try:
        return process.name() == name and Path(process.cwd()) == data
    except (psutil.Error, OSError):
        return False


def _recorded(file: Path, marker: str) -> list[psutil.Process]:
    with suppress(psutil.Error, OSError, ValueError):
        process = psutil.Process(int(file.read_text(encoding="ascii")))
        # A process that is younger than the file has reused the number.
        if process.create_time() <= file.stat().st_mtime + 1 and any(
            marker in word for word in process.cmdline()
        ):
            return [process]
    return []


async def _end(processes: Sequence[psutil.Process]) -> int:
    """Send SIGINT, and SIGKILL after the grace period; returns the number of processes."""
    for number in (signal.SIGINT, signal.SIGKILL):
        for process in processes:
            with suppress(psutil.Error):
                process.send_signal(number)
        if await _all_gone(processes):
            break
    return len(processes)


async def _all_gone(processes: Sequence[psutil.Process]) -> bool:
    try:
        async with asyncio.timeout(GRACE_S):
            while any(_alive(process) for process in processes):  # noqa: ASYNC110 - they are not our children
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        return False
    return True


def _alive(process: psutil.Process) -> bool:
    """A zombie counts as ended: it holds nothing, and its parent may never reap it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
