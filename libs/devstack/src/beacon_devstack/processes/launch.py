"""Replaces itself by the given program: `python -I launch.py <spec as JSON>`.

A script of its own, on the standard library alone, so that the parent does nothing between fork and exec.
It writes its pid file, drops root, asks the kernel for a signal when the parent dies, and execs.
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

EXIT_PARENT_GONE = 125
EXIT_UNREACHABLE = 126

PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAPABILITY_VERSION_3 = 0x20080522
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2

# Postgres refuses root, yet a home below a private directory (/root, umask 077) is closed to other accounts.
# The smallest set that suffices is used: none, searching directories, ignoring file modes.
CAPABILITY_STEPS: tuple[tuple[int, ...], ...] = ((), (CAP_DAC_READ_SEARCH,), (CAP_DAC_OVERRIDE,))


def main(spec: dict[str, Any]) -> NoReturn:
    _write_pid_file(spec["pid_file"])
    # Python ignores these two; an ignored signal would stay ignored in the child.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    account = spec["account"]
    if account is None:
        _die_with_parent(spec)
        _exec(spec["argv"])
    _become(account["uid"], account["gid"])
    _exec_where_reachable(spec)


def _write_pid_file(path: str) -> None:
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib doubles the start-up time
        file.write(f"{os.getpid()}\n")
    os.replace(temporary, path)  # noqa: PTH105


def _exec_where_reachable(spec: dict[str, Any]) -> NoReturn:
    paths = [*spec["must_reach"], spec["argv"][0]]
    for capabilities in CAPABILITY_STEPS:
        if capabilities and not _raise_ambient(capabilities):
            continue
        if _reachable(paths):
            _die_with_parent(spec)
            try:
                _exec(spec["argv"])
            except PermissionError:
                continue
    sys.stderr.write(
        f"the account with uid {os.getuid()} cannot reach {spec['argv'][0]} or {spec['must_reach']}: "
        "put the project and BEACON_HOME where other accounts have access, or do not start as root\n"
    )
    sys.exit(EXIT_UNREACHABLE)


def _exec(argv: list[str]) -> NoReturn:
    os.execv(argv[0], argv)  # noqa: S606 - the purpose of this file


def _reachable(paths: Sequence[str]) -> bool:
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDONLY))
        except OSError:
            return False
    return True


def _become(uid: int, gid: int) -> None:
    if sys.platform == "linux":
        _prctl(PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def _raise_ambient(capabilities: Sequence[int]) -> bool:
    """Keep these few capabilities across exec; false where the kernel or the container does not allow it."""
    if sys.platform != "linux":
        return False
    mask = sum(1 << number for number in capabilities)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    # effective, permitted, inheritable of the low 32 capabilities, then of the high ones
    data = (ctypes.c_uint32 * 6)(mask, _permitted(), mask, 0, 0, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, data) != 0:
        return False
    return all(_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number) == 0 for number in capabilities)


def _permitted() -> int:
    """The low 32 permitted capabilities: kept until exec, so that the next step remains possible."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capget(header, data) != 0:
        return 0
    return int(data[1])


def _die_with_parent(spec: dict[str, Any]) -> None:
    """After dropping root, because a change of credentials clears the setting."""
    if sys.platform != "linux":
        return
    _prctl(PR_SET_PDEATHSIG, spec["death_signal"])
    parent = os.getppid()
    if parent != spec["parent"]:
        sys.stderr.write(
            f"not started: process {spec['parent']}, which asked for it, is gone (now {parent})\n"
        )
        sys.exit(EXIT_PARENT_GONE)


def _prctl(option: int, first: int, second: int = 0) -> int:
    return int(ctypes.CDLL(None, use_errno=True).prctl(option, first, second, 0, 0))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
