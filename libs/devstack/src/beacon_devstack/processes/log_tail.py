"""Shows new lines of several log files as they are written."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from beacon_lifecycle import Clock, TaskSet

POLL_S = 0.2
CHUNK_BYTES = 256 * 1024


class LogTail:
    """Reads log files from their current ends; `show` gets the component and a complete line."""

    name = "logs"

    def __init__(self, logs: Mapping[str, Path], show: Callable[[str, str], None], *, clock: Clock) -> None:
        self._tails = [_Tail(component, path) for component, path in logs.items()]
        self._show = show
        self._clock = clock
        self._tasks = TaskSet("logs")

    async def start(self) -> None:
        self._tasks.spawn("follow", self._run())

    async def stop(self) -> None:
        """Show the last lines, and end."""
        await self._tasks.close()
        self.run_once()

    def run_once(self) -> int:
        """Show new lines; returns how many."""
        lines = 0
        for tail in self._tails:
            for line in tail.new_lines():
                self._show(tail.component, line)
                lines += 1
        return lines

    async def _run(self) -> None:
        while True:
            self.run_once()
            await self._clock.sleep(POLL_S)


class _Tail:
    """One file; an incomplete line is kept until it is complete."""

    def __init__(self, component: str, path: Path) -> None:
        self.component = component
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._rest = b""

    def new_lines(self) -> list[str]:
        lines: list[str] = []
        while chunk := self._read():
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            lines += [line.decode(errors="replace") for line in whole]
        return lines

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._offset:
                    self._offset = 0  # the file was replaced
                file.seek(self._offset)
                chunk = file.read(CHUNK_BYTES)
        except FileNotFoundError:
            return b""
        self._offset += len(chunk)
        return chunk
