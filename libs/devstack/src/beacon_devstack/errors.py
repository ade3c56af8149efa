"""Errors of the stack, with messages for the terminal."""

from pathlib import Path


class DevstackError(Exception):
    """A component of the stack cannot run: which one, why, and its log."""

    def __init__(self, component: str, reason: str, log: Path | None = None) -> None:
        self.component = component
        self.reason = reason
        self.log = log
        where = f" (log: {log})" if log is not None else ""
        super().__init__(f"{component}: {reason}{where}")


class PortTakenError(DevstackError):
    """A configured port is used by another process."""


class AlreadyRunningError(DevstackError):
    """Another process holds this home."""
