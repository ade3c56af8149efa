"""`Prefer: wait=N` and `Prefer: respond-async` (RFC 7240)."""

from dataclasses import dataclass

from starlette.types import Scope

_LONGEST_WAIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Preference:
    """`wait_s` None: as long as it takes."""

    wait_s: float | None
    applied: str | None = None


UNTIL_DONE = Preference(None)
AT_ONCE = Preference(0.0)


def preference_of(scope: Scope, otherwise: Preference) -> Preference:
    values = [value.decode("latin-1") for name, value in scope["headers"] if name == b"prefer"]
    return read_preference(values, otherwise) if values else otherwise


def read_preference(values: list[str], otherwise: Preference) -> Preference:
    """What the client prefers; what is not understood is ignored, as the RFC asks."""
    found: dict[str, str] = {}
    for value in values:
        for part in value.split(","):
            name, _, given = part.split(";")[0].partition("=")
            found.setdefault(name.strip().lower(), given.strip().strip('"'))
    seconds = found.get("wait", "")
    if seconds.isascii() and seconds.isdigit():
        return Preference(min(float(seconds), _LONGEST_WAIT_S), f"wait={seconds}")
    if "respond-async" in found:
        return Preference(0.0, "respond-async")
    return otherwise
