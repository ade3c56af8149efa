"""The memory of a process, read from Linux's /proc."""

from pathlib import Path


def restart_peak(pid: int) -> None:
    """VmHWM counts from here."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def memory_of(pid: int, field: str) -> int:
    """Bytes of VmRSS (now) or VmHWM (highest)."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} of process {pid}")
