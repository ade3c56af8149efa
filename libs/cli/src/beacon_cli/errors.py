"""Errors of the command line itself."""


class InputError(Exception):
    """The input of the command is not usable; the message says why."""


class MissingError(Exception):
    """The named object does not exist."""
