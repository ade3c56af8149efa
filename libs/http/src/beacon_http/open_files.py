"""The limit on open files, raised as far as the connections of a server need it.

At the limit a process cannot open connections to its database or backends either: connections of clients get
at most half of it.
"""

import resource
import sys

import structlog

log = structlog.get_logger(__name__)


def connections_allowed(wanted: int) -> int:
    """As many as wanted, or half of the files that the process may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = files_needed(wanted, soft, hard)
    if files != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    if files == resource.RLIM_INFINITY or wanted <= files // 2:
        return wanted
    allowed = max(1, files // 2)
    log.warning("connections_exceed_open_files", wanted=wanted, files=files, allowed=allowed)
    return allowed


def files_needed(connections: int, soft: int, hard: int) -> int:
    """The soft limit for so many connections: at least the present one, at most the hard limit."""
    if soft == resource.RLIM_INFINITY:
        return soft
    limit = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    return max(soft, min(2 * connections, limit))
