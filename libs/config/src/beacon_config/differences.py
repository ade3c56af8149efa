"""The differences between two configurations, key by key."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from beacon_config.reference import restart_patterns
from beacon_config.root import BeaconConfig


class Difference(NamedTuple):
    """`before` None: the key was added; `after` None: it was removed. Defaults count as given."""

    key: str
    before: Any
    after: Any


def differences(before: BeaconConfig, after: BeaconConfig) -> list[Difference]:
    """In the order of the sections. The order of the tiers is a difference too: it is their priority."""
    found = list(_between("", _plain(before), _plain(after)))
    orders = list(before.tiers), list(after.tiers)
    if orders[0] != orders[1] and set(orders[0]) == set(orders[1]):
        found.append(Difference("tiers", *orders))
    return found


def restart_needed(changes: list[Difference]) -> list[str]:
    """The keys of which a change applies only when processes are started again."""
    patterns = restart_patterns()
    return [change.key for change in changes if any(_matches(change, *each) for each in patterns)]


def _plain(config: BeaconConfig) -> dict[str, Any]:
    return config.model_dump(mode="json", by_alias=True)


def _between(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys((*before, *after)):
        key = f"{path}.{name}" if path else name
        old, new = before.get(name), after.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _between(key, old, new)
        elif old != new:
            yield Difference(key, old, new)


def _matches(change: Difference, start: str, end: str) -> bool:
    """Names of tables may have dots, so only the ends are compared. A whole table has all of its keys."""
    table = isinstance(change.before or change.after, dict)
    return change.key.startswith(start) and (table or change.key.endswith(f".{end}"))
