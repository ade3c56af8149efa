"""The amount of measurements."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.entry import Entry
from benchmarks.peers.entries import installed

Rounds = list[dict[str, float]]


@dataclass(frozen=True, slots=True)
class Plan:
    """`scale` reduces every count, for a short run or a test of the benchmark.

    `peers` names the other queues that take part; None: all that are installed.
    """

    rounds: int = 7
    seed: int = 1
    scale: float = 1.0
    peers: Sequence[str] | None = None

    def jobs(self, count: int) -> int:
        """Whole hundreds, because batches have a hundred."""
        return max(100, round(count * self.scale / 100) * 100)

    def others(self) -> list[Entry]:
        return [peer for peer in installed() if self.peers is None or peer.name in self.peers]

    def samples(self, count: int) -> int:
        return max(10, round(count * self.scale))


@dataclass(slots=True)
class Section:
    """The results of one measurement by round and name, with its notes."""

    name: str
    rounds: Rounds = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "settings": self.settings, "failures": self.failures}


def setting_text(variant: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in dict(variant).items()) or "defaults"
