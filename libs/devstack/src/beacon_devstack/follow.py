"""Shows what the parts write to their logs, line by line, as it comes."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from beacon_lifecycle import Clock, TaskSet

EVERY_S = 0.2
CHUNK_BYTES = 256 * 1024


class LogFollower:
    """Reads several log files from where they are now; `show` gets the part and one whole line."""

    name = "logs"

    def __init__(self, logs: Mapping[str, Path], show: Callable[[str, str], None], *, clock: Clock) -> None:
        self._tails = [_Tail(part, path) for part, path in logs.items()]
        self._show = show
        self._clock = clock
        self._tasks = TaskSet("logs")

    async def start(self) -> None:
        self._tasks.spawn("follow", self._run())

    async def stop(self) -> None:
        """Show what came last, and end."""
        await self._tasks.close()
        self.run_once()

    def run_once(self) -> int:
        """Show what is new; returns the number of lines."""
        lines = 0
        for tail in self._tails:
            for line in tail.new_lines():
                self._show(tail.part, line)
                lines += 1
        return lines

    async def _run(self) -> None:
        while True:
            self.run_once()
            await self._clock.sleep(EVERY_S)


class _Tail:
    """One file; a line that is not whole yet waits for its end."""

    def __init__(self, part: str, path: Path) -> None:
        self.part = part
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
                    self._offset = 0  # a new file took its place
                file.seek(self._offset)
                chunk = file.read(CHUNK_BYTES)
        except FileNotFoundError:
            return b""
        self._offset += len(chunk)
        return chunk
