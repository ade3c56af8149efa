"""The core as it is written and as it is compiled, each in a process of its own, measured in turn."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from beacon_lifecycle import tune_gc
from benchmarks.harness.process import ROOT
from benchmarks.harness.rounds import shuffled_rounds
from benchmarks.harness.statistics import Round
from benchmarks.scheduling.cost import SIZES, Benches, bytes_per_waiting

COMPILED, INTERPRETED = "compiled", "interpreted"
YOUNG = 5_000
"""Objects between two looks for garbage, as in the router."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one core."""

    decisions: dict[str, list[Round]]
    """By kind, round by round, CPU microseconds per decision by number of waiting requests."""
    bytes_each: float
    """Of a waiting request."""


def core_costs(rounds: int, decisions: int, seed: int) -> dict[str, Costs]:
    """By core."""
    with ExitStack() as processes:
        cores = {INTERPRETED: processes.enter_context(_core({}, seed))}
        found: dict[str, list[dict[str, Round]]] = {name: [] for name in cores}
        for number, order in enumerate(shuffled_rounds(list(cores), rounds, seed)):
            for name in order:
                found[name].append(cores[name].measure(number, decisions))
        return {
            name: Costs(
                {kind: [costs[kind] for costs in found[name]] for kind in found[name][0]}, core.bytes_each
            )
            for name, core in cores.items()
        }


class _Core:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.bytes_each: float = self._answer()

    def measure(self, number: int, decisions: int) -> dict[str, Round]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps([number, decisions])}\n")
        self._process.stdin.flush()
        costs: dict[str, Round] = self._answer()
        return costs

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that measures decisions has ended; its last words are above")
        return json.loads(line)


@contextmanager
def _core(environment: Mapping[str, str], seed: int) -> Iterator[_Core]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.scheduling.cores", str(seed)],
        cwd=ROOT,
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield _Core(process)
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    """Say what a waiting request takes, then answer each line with what decisions cost."""
    seed = int(sys.argv[1])
    print(bytes_per_waiting(SIZES[-1], seed), flush=True)
    benches = Benches(seed)
    tune_gc(young=YOUNG)
    for line in sys.stdin:
        number, decisions = json.loads(line)
        print(json.dumps(benches.round(number, decisions)), flush=True)


if __name__ == "__main__":
    main()
