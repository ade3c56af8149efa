"""Exit codes, so that scripts can tell what happened without reading."""

from enum import IntEnum

from beacon_client.errors import BeaconError

HELP = (
    "Exit codes: 0 done; 1 failed (the job did not complete, a check found something, the server broke); "
    "2 wrong usage or input; 3 not found; 4 not authorised; 5 unreachable; 6 a limit or the credit is used; "
    "7 the state does not allow it; 130 interrupted."
)


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_AUTHORISED = 4
    UNREACHABLE = 5
    LIMIT = 6
    CONFLICT = 7
    INTERRUPTED = 130


_BY_STATUS = {
    0: Exit.UNREACHABLE,
    400: Exit.USAGE,
    401: Exit.NOT_AUTHORISED,
    402: Exit.LIMIT,
    403: Exit.NOT_AUTHORISED,
    404: Exit.NOT_FOUND,
    409: Exit.CONFLICT,
    413: Exit.USAGE,
    422: Exit.USAGE,
    429: Exit.LIMIT,
    502: Exit.UNREACHABLE,
    503: Exit.UNREACHABLE,
    504: Exit.UNREACHABLE,
}


def exit_of(error: BeaconError) -> Exit:
    return _BY_STATUS.get(error.status, Exit.FAILED)
