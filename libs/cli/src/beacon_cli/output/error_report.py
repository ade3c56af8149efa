"""The message and the exit code of an error. Loaded only when a command fails."""

from beacon_cli.errors import InputError, MissingError
from beacon_cli.exit_codes import Exit
from beacon_cli.output.printing import print_error, print_problem
from beacon_client.credentials import CredentialsError
from beacon_client.errors import BeaconError

_BY_STATUS = {
    0: Exit.UNREACHABLE,
    400: Exit.USAGE,
    401: Exit.NOT_AUTHORISED,
    402: Exit.LIMIT,
    403: Exit.NOT_AUTHORISED,
    404: Exit.NOT_FOUND,
    409: Exit.CONFLICT,
    412: Exit.CONFLICT,
    413: Exit.USAGE,
    422: Exit.USAGE,
    429: Exit.LIMIT,
    502: Exit.UNREACHABLE,
    503: Exit.UNREACHABLE,
    504: Exit.UNREACHABLE,
}


def report(error: Exception) -> Exit | None:
    """Print an expected error; None for an unexpected one, which is not printed."""
    match error:
        case BeaconError():
            print_problem(error)
            return _BY_STATUS.get(error.status, Exit.FAILED)
        case MissingError():
            print_error(str(error))
            return Exit.NOT_FOUND
        case InputError() | CredentialsError():
            print_error(str(error))
            return Exit.USAGE
        case OSError():
            print_error(f"cannot write: {error.strerror}")
            return Exit.FAILED
        case _:
            return None
