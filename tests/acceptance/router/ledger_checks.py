"""Checks over the ledgers of several simulated GPUs."""

from collections.abc import Iterable, Sequence
from typing import Any

from tests.fixtures.gpusim import Gpusim

Call = dict[str, Any]


async def merged(*gpus: Gpusim) -> list[Call]:
    """All calls that held a slot, by arrival."""
    calls = [call for gpu in gpus for call in await gpu.ledger() if call["outcome"] != "refused"]
    return sorted(calls, key=lambda call: call["arrived"])


async def refused(*gpus: Gpusim) -> int:
    """How often more slots than exist were requested."""
    return sum([(await gpu.stats())["excess"] for gpu in gpus])


def most_at_once(calls: Iterable[Call], except_in: Sequence[tuple[float, float]] = ()) -> int:
    """The most calls that held slots at one moment outside of the given intervals, over all GPUs."""
    edges: list[tuple[float, int]] = [(end, 0) for _, end in except_in]
    for call in calls:
        edges.append((call["arrived"], 1))
        if call["ended"] is not None:
            edges.append((call["ended"], -1))
    most = now = 0
    for at, step in sorted(edges):
        now += step
        if not any(begin <= at < end for begin, end in except_in):
            most = max(most, now)
    return most


def of(calls: Iterable[Call], request_id: str) -> list[Call]:
    return [call for call in calls if call["request_id"] == request_id]
