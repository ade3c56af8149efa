"""The requests of a simulation: generated from seeded random numbers, or read from a CSV file."""

import csv
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from beacon_router.scheduling import BackendSpec, Topology

RUN_TIME_SIGMA = 0.5
"""Of the lognormal distribution of run times around a model's expected run time."""
BURST_CYCLES, BURST_SHARE, BURST_TIME = 10, 2 / 3, 1 / 4
"""With bursts, each of ten cycles receives two thirds of its requests in its first quarter."""


class LoadError(ValueError):
    """The load cannot be simulated; the message says why."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request: when it arrives, what it asks for, and how long its run takes."""

    arrival_s: float
    user: str
    tier: str
    rank: int
    model: str
    region: str
    run_s: float


@dataclass(frozen=True, slots=True)
class GeneratedLoad:
    """Users are active by Zipf's law, and each tier has twice as many of them as the one above it."""

    requests: int = 2_000
    load: float = 0.7
    """Share of the time of all slots that the runs take, without model loads."""
    users: int = 50
    bursts: bool = False
    seed: int = 1


def generate(topology: Topology, tiers: Sequence[str], settings: GeneratedLoad) -> list[Arrival]:
    """Requests in order of arrival. Each backend receives work in proportion to its slots."""
    draw = random.Random(settings.seed)  # noqa: S311 - not a secret
    expected_s = {model.name: max(model.expected_run_s, 0.001) for model in topology.models}
    backends = [backend for backend in topology.backends if backend.slots and not backend.drain]
    if not backends:
        raise LoadError("no backend has slots for new requests")
    weights = list(accumulate(_request_share(backend, expected_s) for backend in backends))
    users = _users(draw, tiers, settings.users)
    activity = list(accumulate(1 / place for place in range(1, len(users) + 1)))
    drawn = []
    for _ in range(settings.requests):
        backend = draw.choices(backends, cum_weights=weights)[0]
        model = draw.choice(sorted(backend.models))
        user, rank = draw.choices(users, cum_weights=activity)[0]
        run_s = expected_s[model] * _run_time_factor(draw)
        drawn.append((user, tiers[rank], rank, model, backend.region, run_s))
    work_s = sum(run_s for *_, run_s in drawn)
    duration_s = work_s / (sum(backend.slots for backend in backends) * settings.load)
    moments = sorted(_moment(draw, bursts=settings.bursts) * duration_s for _ in drawn)
    return [Arrival(moment, *request) for moment, request in zip(moments, drawn, strict=True)]


def read_load(path: Path, topology: Topology, tiers: Sequence[str], seed: int = 1) -> list[Arrival]:
    """Requests of a CSV file with the columns `arrival_s, user, tier, model, run_s` and, optionally,
    `region`: without it a request goes to a random region that serves its model."""
    serving = {
        model.name: sorted({backend.region for backend in topology.backends if model.name in backend.models})
        for model in topology.models
    }
    draw = random.Random(seed)  # noqa: S311
    with path.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        missing = {"arrival_s", "user", "tier", "model", "run_s"} - set(reader.fieldnames or ())
        if missing:
            raise LoadError(f"{path.name} has no column {', '.join(sorted(missing))}")
        arrivals = [
            _arrival(row, f"{path.name}, line {reader.line_num}", serving, tiers, draw) for row in reader
        ]
    if not arrivals:
        raise LoadError(f"{path.name} has no requests")
    return sorted(arrivals, key=lambda arrival: arrival.arrival_s)


def _arrival(
    row: Mapping[str, str],
    where: str,
    serving: Mapping[str, Sequence[str]],
    tiers: Sequence[str],
    draw: random.Random,
) -> Arrival:
    regions = serving.get(row["model"])
    if not regions:
        raise LoadError(f"{where}: no backend serves the model {row['model']!r}")
    region = row.get("region") or draw.choice(regions)
    if region not in regions:
        raise LoadError(f"{where}: no backend in the region {region!r} serves {row['model']!r}")
    if row["tier"] not in tiers:
        raise LoadError(f"{where}: no tier {row['tier']!r}; tiers are {', '.join(tiers)}")
    return Arrival(
        _seconds(row, "arrival_s", where),
        row["user"],
        row["tier"],
        tiers.index(row["tier"]),
        row["model"],
        region,
        _seconds(row, "run_s", where),
    )


def _seconds(row: Mapping[str, str], column: str, where: str) -> float:
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = math.nan
    if not 0 <= value < math.inf:
        raise LoadError(f"{where}: {column} must be a number of seconds, not {row[column]!r}")
    return value


def _users(draw: random.Random, tiers: Sequence[str], count: int) -> list[tuple[str, int]]:
    ranks = draw.choices(range(len(tiers)), [2.0**rank for rank in range(len(tiers))], k=count)
    return [(f"user-{number}", rank) for number, rank in enumerate(ranks, start=1)]


def _request_share(backend: BackendSpec, expected_s: Mapping[str, float]) -> float:
    mean_s = sum(expected_s[model] for model in backend.models) / len(backend.models)
    return backend.slots / mean_s


def _run_time_factor(draw: random.Random) -> float:
    """Lognormal with mean 1."""
    return draw.lognormvariate(-RUN_TIME_SIGMA * RUN_TIME_SIGMA / 2, RUN_TIME_SIGMA)


def _moment(draw: random.Random, *, bursts: bool) -> float:
    """When a request arrives, between 0 and 1."""
    if not bursts:
        return draw.random()
    burst = draw.random() < BURST_SHARE
    place = draw.random() * BURST_TIME if burst else BURST_TIME + draw.random() * (1 - BURST_TIME)
    return (draw.randrange(BURST_CYCLES) + place) / BURST_CYCLES
