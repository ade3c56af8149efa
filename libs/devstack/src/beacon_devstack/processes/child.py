"""One child process: started through the launcher, logging to a file, stopped within a bound."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from beacon_devstack.errors import DevstackError
from beacon_devstack.servers.account import Account

LAUNCHER = Path(__file__).with_name("launch.py")
LOG_LIMIT_BYTES = 16 * 1024 * 1024
ERROR_LINE = re.compile(r"\w*Error\b|\bFATAL\b|\bcannot\b|\berror:", re.ASCII)


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to start, and how to stop it."""

    name: str
    argv: Sequence[str]
    log: Path
    pid_file: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    account: Account | None = None
    must_reach: Sequence[Path] = ()
    stdin: bytes = b""
    cwd: Path | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    grace_s: float = 20.0


class StartedProcess(Protocol):
    """The interface of a started process: `asyncio.subprocess.Process`, or a test double."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    @property
    def stdin(self) -> asyncio.StreamWriter | None: ...
    async def wait(self) -> int: ...


class Child:
    """A child process. On Linux it ends with this process, even when this one is killed."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self._process: StartedProcess | None = None
        self._log_start = 0
        self._group_ended = False

    def __repr__(self) -> str:
        state = "not started" if self._process is None else f"pid {self.pid}, exit code {self.returncode}"
        return f"Child({self.spec.name}: {state})"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise DevstackError(self.spec.name, "it was not started")
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return None if self._process is None else self._process.returncode

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        with self._open_log() as log:
            self._log_start = log.tell()
            self._group_ended = False
            self._process = await self.launch(log)
        await self._write_stdin()

    async def wait(self) -> int:
        if self._process is None:
            raise DevstackError(self.spec.name, "it was not started")
        return await self._process.wait()

    async def stop(self) -> None:
        """Signal, wait for the grace period, then kill, with the whole process group. Idempotent."""
        if self._process is None:
            return
        if self.running:
            self._send(self.spec.stop_signal)
            try:
                await asyncio.wait_for(self._process.wait(), self.spec.grace_s)
            except TimeoutError:
                self._send(signal.SIGKILL)
                await self._process.wait()
        self._end_group()
        self.spec.pid_file.unlink(missing_ok=True)

    async def kill(self) -> None:
        """kill -9, as a crash would."""
        if self.running:
            self._send(signal.SIGKILL)
            await self.wait()

    def since_start(self, limit: int = 8192) -> str:
        """The end of the log that was written since the last start."""
        try:
            with self.spec.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(min(self._log_start, size), size - limit))
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def exit_error(self, event: str) -> DevstackError:
        """The error for a child that ended unexpectedly."""
        line = _error_line(self.since_start())
        cause = f": {line}" if line else ""
        return DevstackError(self.spec.name, f"{event} (exit code {self.returncode}){cause}", self.spec.log)

    async def launch(self, log: BinaryIO) -> StartedProcess:
        """The new process, which writes to the log."""
        # A session of its own: Ctrl-C reaches only this process, which stops the children in order.
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(LAUNCHER),
            self._launch_spec(),
            stdin=asyncio.subprocess.PIPE if self.spec.stdin else asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(self.spec.environment),
            cwd=self.spec.cwd,
            start_new_session=True,
        )

    def _launch_spec(self) -> str:
        account = self.spec.account
        return json.dumps(
            {
                "argv": list(self.spec.argv),
                "pid_file": str(self.spec.pid_file),
                "account": None if account is None else {"uid": account.uid, "gid": account.gid},
                "must_reach": [str(path) for path in self.spec.must_reach],
                "death_signal": int(self.spec.stop_signal),
                "parent": os.getpid(),
            }
        )

    async def _write_stdin(self) -> None:
        pipe = self._process.stdin if self._process is not None else None
        if pipe is None:
            return
        with suppress(BrokenPipeError, ConnectionResetError):
            pipe.write(self.spec.stdin)
            await pipe.drain()
        pipe.close()

    def _open_log(self) -> BinaryIO:
        log = self.spec.log
        if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
            log.replace(log.with_suffix(".log.1"))
        return log.open("ab")

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def _end_group(self) -> None:
        # Once: the system may give the number to another process later.
        if self._group_ended:
            return
        self._group_ended = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def _error_line(log: str) -> str:
    """The last line that reports an error, because clean-up may log after it; else the last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if ERROR_LINE.search(line)]
    return (errors or lines or [""])[-1]
