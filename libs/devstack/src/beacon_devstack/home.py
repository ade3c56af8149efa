"""The directory of a stack: its layout, and a lock that admits one owner at a time."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beacon_devstack.errors import AlreadyRunningError, DevstackError

DEFAULT_HOME = ".beacon"


@dataclass(frozen=True, slots=True)
class Home:
    """The layout of BEACON_HOME."""

    path: Path

    @classmethod
    def at(cls, path: Path | str) -> "Home":
        """Create the directory. It is searchable by others, because Postgres may run as another account."""
        home = cls(Path(path).expanduser().resolve())
        try:
            home.path.mkdir(mode=0o711, parents=True, exist_ok=True)
            for directory in (home.logs, home.run):
                directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            reason = f"cannot make {home.path}: {error.strerror}; set BEACON_HOME to a directory of yours"
            raise DevstackError("home", reason) from error
        return home

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Home":
        return cls.at(environment.get("BEACON_HOME") or DEFAULT_HOME)

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def run(self) -> Path:
        return self.path / "run"

    @property
    def credentials(self) -> Path:
        return self.path / "credentials.json"

    @property
    def secrets(self) -> Path:
        return self.path / "secrets.json"

    def log_of(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def pid_file_of(self, component: str) -> Path:
        return self.run / f"{component}.pid"

    @contextmanager
    def locked(self, info: Mapping[str, Any]) -> Iterator["LockedHome"]:
        """Hold the lock of this home for the block; the system releases it if the process is killed."""
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise AlreadyRunningError("beacon", _already_running(self, _read_info(lock))) from error
            locked = LockedHome(self, lock)
            locked.publish(info)
            yield locked
            locked.publish({})
        finally:
            os.close(lock)


@dataclass(frozen=True, slots=True)
class LockedHome:
    """A locked home; `publish` stores what a second start reports about the first."""

    home: Home
    lock: int

    def publish(self, info: Mapping[str, Any]) -> None:
        text = json.dumps(dict(info)).encode()
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, text, 0)


def _read_info(lock: int) -> dict[str, Any]:
    try:
        info = json.loads(os.pread(lock, 65536, 0) or b"{}")
    except ValueError:  # read in the moment between truncate and write
        return {}
    return info if isinstance(info, dict) else {}


def _already_running(home: Home, info: Mapping[str, Any]) -> str:
    who = f" as pid {info['pid']}" if "pid" in info else ""
    where = f", at {info['portal_url']}" if info.get("portal_url") else ", still starting"
    return f"Beacon is already running on {home.path}{who}{where}; stop it, or set another BEACON_HOME"


def write_private(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON that only the owner can read, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(dict(value), file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
