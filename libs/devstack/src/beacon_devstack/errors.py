"""What can go wrong while the stack starts or runs, in sentences for the person at the terminal."""

from pathlib import Path


class DevstackError(Exception):
    """A part of the stack cannot run; says which one, why, and where its log is."""

    def __init__(self, part: str, reason: str, log: Path | None = None) -> None:
        self.part = part
        self.reason = reason
        self.log = log
        where = f" (log: {log})" if log is not None else ""
        super().__init__(f"{part}: {reason}{where}")


class PortTakenError(DevstackError):
    """A port that was asked for by number belongs to somebody else."""


class AlreadyRunningError(DevstackError):
    """Another process holds this home."""
