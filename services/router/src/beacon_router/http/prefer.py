"""`Prefer: wait=N` and `Prefer: respond-async` (RFC 7240)."""

from dataclasses import dataclass

from starlette.types import Scope

MAX_WAIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Preference:
    """`wait_s` None: without a limit."""

    wait_s: float | None
    applied: str | None = None


UNTIL_DONE = Preference(None)
IMMEDIATELY = Preference(0.0)


def preference_of(scope: Scope, default: Preference) -> Preference:
    values = [value.decode("latin-1") for name, value in scope["headers"] if name == b"prefer"]
    return parse_preference(values, default) if values else default


def parse_preference(values: list[str], default: Preference) -> Preference:
    """The client's preference; unknown ones are ignored, as the RFC requires."""
    found: dict[str, str] = {}
    for value in values:
        for part in value.split(","):
            name, _, given = part.split(";")[0].partition("=")
            found.setdefault(name.strip().lower(), given.strip().strip('"'))
    seconds = found.get("wait", "")
    if seconds.isascii() and seconds.isdigit():
        return Preference(min(float(seconds), MAX_WAIT_S), f"wait={seconds}")
    if "respond-async" in found:
        return Preference(0.0, "respond-async")
    return default
