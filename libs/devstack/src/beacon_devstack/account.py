"""Who the embedded servers run as: ourselves, or an unprivileged account when we are root."""

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


def server_account(data: Path, *, part: str) -> Account | None:
    """The account for a server with this data directory; None means our own.

    Data that exists keeps its owner, so that a home works again whoever made it.
    """
    if data.exists():
        owner = data.stat()
        if os.geteuid() != 0:
            _refuse_foreign(data, owner.st_uid, part)
        elif owner.st_uid != 0:
            return Account(owner.st_uid, owner.st_gid)
    return _unprivileged(part, CANDIDATES) if os.geteuid() == 0 else None


def give(path: Path, account: Account | None) -> None:
    """Hand a file or directory to the account that the server runs as."""
    if account is not None:
        os.chown(path, account.uid, account.gid)


def _refuse_foreign(data: Path, owner: int, part: str) -> None:
    if owner != os.geteuid():
        reason = f"{data} belongs to uid {owner}, not to you; set BEACON_HOME to a directory of yours"
        raise DevstackError(part, reason)


def _unprivileged(part: str, names: Iterable[str]) -> Account:
    for name in names:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(entry.pw_uid, entry.pw_gid)
    known = " or ".join(CANDIDATES)
    reason = f"it does not run as root, and there is no account {known}; start as another user"
    raise DevstackError(part, reason)
