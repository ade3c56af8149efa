"""`make explore`: property tests and chaos runs with new seeds until the time is up.

`make test` uses the same examples each time. This command generates others and prints the command that
repeats a failure.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

STOP_TIMEOUT_S = 60.0
PYTEST = "python -m pytest -q -p no:cacheprovider"


@dataclass(frozen=True, slots=True)
class Exploration:
    """One pytest run with a seed."""

    name: str
    arguments: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """What repeats it, from the project's directory."""
        variables = "".join(f"{name}={value} " for name, value in self.environment.items())
        return f"{variables}.venv/bin/{PYTEST} {self.arguments}"


def explorations(random_: random.Random) -> Iterator[Exploration]:
    """Property tests and chaos runs, alternating, each with a seed of its own."""
    while True:
        seed = random_.randrange(2**31)
        yield Exploration(
            "property tests", f"tests -m hypothesis --hypothesis-profile=explore --hypothesis-seed={seed}"
        )
        yield Exploration("chaos", "tests/chaos -k no_job_is_lost", {"BEACON_CHAOS_SEED": str(seed)})


def explore(seconds: float, random_: random.Random) -> int:
    end = time.monotonic() + seconds
    finished = 0
    for exploration in explorations(random_):
        left_s = end - time.monotonic()
        if left_s <= 0:
            break
        print(f"==> {exploration.name}: {exploration.command}", flush=True)
        code = _run(exploration, left_s)
        if code is None:
            print(f"==> {exploration.name}: stopped, the time is up", flush=True)
        elif code != 0:
            print(f"explore: FAILED. This repeats it:\n    {exploration.command}", file=sys.stderr)
            return 1
        else:
            finished += 1
    print(f"explore: no failure in {finished} finished runs", flush=True)
    return 0


def _run(exploration: Exploration, limit_s: float) -> int | None:
    """The exit code; None when it was stopped because of the time limit."""
    words = [sys.executable, *PYTEST.split()[1:], *exploration.arguments.split()]
    process = subprocess.Popen(words, env={**os.environ, **exploration.environment})
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait(STOP_TIMEOUT_S)
        return None
    except KeyboardInterrupt:
        process.wait(STOP_TIMEOUT_S)
        raise


def main() -> int:
    parser = argparse.ArgumentParser(prog="make explore", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to explore")
    parser.add_argument("--seed", type=int, help="the seed that all others are drawn from")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**31)
    print(f"==> exploring for {options.seconds:.0f} s with seed {seed}", flush=True)
    return explore(options.seconds, random.Random(seed))


if __name__ == "__main__":
    sys.exit(main())
