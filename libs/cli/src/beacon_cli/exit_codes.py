"""Exit codes for scripts."""

from enum import IntEnum

HELP = (
    "Exit codes: 0 done; 1 failed (the job did not complete, a check failed, the server failed); "
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
