"""The mixed load: what each user submits and what happens to the system, by seconds from the begin."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

TIERS = (
    "admin",
    "creator",
    "creator",
    "premium",
    "premium",
    "supporter",
    "supporter",
    "free",
    "free",
    "free",
)
REGIONS = ("US", "EU", "ASIA")
CHATS = ("llama3.2-1b", "qwen2.5-1.5b", "mistral-7b")
IMAGES = ("flux", "sdxl")
SOUNDS = ("music", "audio")
MATRIX_QUESTIONS = 20
"""With two models and three regions: 120 executions."""
PAUSED, PAUSED_S = "medium", 12.0
DEAD, DEAD_S = "gpusim-us", 15.0


@dataclass(frozen=True, slots=True)
class Submission:
    at_s: float
    user: int
    kind: str
    body: dict[str, Any] = field(compare=False)


def submissions(seconds: float, rate: float, seed: int) -> list[Submission]:
    """Single requests by Poisson, a burst of one user every 25 s and a matrix every 30 s, in order."""
    draw = random.Random(seed)
    found = [*_singles(draw, seconds, rate), *_bursts(draw, seconds), *_matrices(draw, seconds)]
    return sorted(found, key=lambda one: one.at_s)


def disturbances(seconds: float) -> list[tuple[float, str]]:
    """A class is paused in the first half, and the simulator of a region is down in the second."""
    return [(0.3 * seconds, "pause"), (0.6 * seconds, "kill")]


def _singles(draw: random.Random, seconds: float, rate: float) -> Iterator[Submission]:
    at_s = 0.0
    while (at_s := at_s + draw.expovariate(rate)) < seconds:
        user = draw.randrange(len(TIERS))
        if draw.random() < 0.05:
            yield Submission(at_s, user, "pipeline", _pipeline())
        else:
            yield Submission(at_s, user, "single", _generation(draw))


def _bursts(draw: random.Random, seconds: float) -> Iterator[Submission]:
    at_s = 10.0
    while at_s < seconds:
        user, body = draw.randrange(len(TIERS)), _generation(draw)
        for number in range(20):
            yield Submission(at_s + 0.02 * number, user, "burst", body)
        at_s += 25.0


def _matrices(draw: random.Random, seconds: float) -> Iterator[Submission]:
    at_s = 5.0
    while at_s < seconds:
        questions = [
            {"id": f"q{number}", "prompt": "Why is the sky blue?"} for number in range(MATRIX_QUESTIONS)
        ]
        body = {
            "kind": "matrix",
            "questions": questions,
            "models": draw.sample(CHATS, 2),
            "regions": list(REGIONS),
            "failover": draw.choice(("any", "pinned")),
        }
        yield Submission(at_s, draw.randrange(len(TIERS)), "matrix", body)
        at_s += 30.0


def _generation(draw: random.Random) -> dict[str, Any]:
    kind = draw.choices((CHATS, IMAGES, SOUNDS), (8, 1, 1))[0]
    regions = {CHATS: REGIONS, IMAGES: REGIONS[:2], SOUNDS: REGIONS[:1]}[kind]
    body = {
        "kind": "generation",
        "model": draw.choice(kind),
        "prompt": "a cat",
        "region": draw.choice(regions),
        "failover": draw.choice(("any", "pinned")),
    }
    return body | {"duration": 10} if kind is SOUNDS else body


def _pipeline() -> dict[str, Any]:
    return {"kind": "pipeline", "feature": "text_only", "input": {"prompt": "Write a story"}}
