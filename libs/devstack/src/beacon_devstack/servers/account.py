"""The account of the embedded servers: our own, or an unprivileged one when we are root."""

import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from beacon_devstack.errors import DevstackError

CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    uid: int
    gid: int


def server_account(data: Path, *, component: str) -> Account | None:
    """The account for a server with this data directory; None means our own.

    Existing data keeps its owner, so that a home created by another account works again.
    """
    if data.exists():
        owner = data.stat()
        if os.geteuid() != 0:
            _refuse_foreign(data, owner.st_uid, component)
        elif owner.st_uid != 0:
            return Account(owner.st_uid, owner.st_gid)
    return _unprivileged(component, CANDIDATES) if os.geteuid() == 0 else None


def give(path: Path, account: Account | None) -> None:
    """Hand a file or directory to the account that the server runs as."""
    if account is not None:
        os.chown(path, account.uid, account.gid)


def _refuse_foreign(data: Path, owner: int, component: str) -> None:
    if owner != os.geteuid():
        reason = f"{data} belongs to uid {owner}, not to you; set BEACON_HOME to a directory of yours"
        raise DevstackError(component, reason)


def _unprivileged(component: str, names: Iterable[str]) -> Account:
    for name in names:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(entry.pw_uid, entry.pw_gid)
    known = " or ".join(CANDIDATES)
    reason = f"it does not run as root, and there is no account {known}; start as another user"
    raise DevstackError(component, reason)
