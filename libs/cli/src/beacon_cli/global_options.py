"""Options that apply to a whole command: the key and the output format."""

from contextvars import ContextVar

_as_admin: ContextVar[bool] = ContextVar("beacon_as_admin", default=False)
_json: ContextVar[bool] = ContextVar("beacon_json", default=False)


def choose_admin(value: bool) -> bool:
    """Select the administrator's key for the rest of the command."""
    _as_admin.set(value)
    return value


def wants_admin() -> bool:
    return _as_admin.get()


def choose_json(value: bool) -> bool:
    """Select JSON output for the rest of the command."""
    _json.set(value)
    return value


def wants_json() -> bool:
    return _json.get()
