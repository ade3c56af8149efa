"""`python -m benchmarks`: all benchmarks in sequence, each in its own process."""

import subprocess
import sys
from importlib.util import find_spec

NAMES = (
    "runner",
    "fairness",
    "router",
    "scheduling",
    "estimates",
    "end_to_end",
    "openai_api",
    "files",
    "webhooks",
)


def main() -> int:
    failed = []
    for name in NAMES:
        if find_spec(f"benchmarks.{name}.__main__") is None:
            continue
        print(f"==> benchmarks.{name}", flush=True)
        if subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]], check=False
        ).returncode:
            failed.append(name)
    for name in failed:
        print(f"benchmarks.{name} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
