"""The peers: environment, variants of settings, number of jobs."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.harness.entry import Entry
from benchmarks.harness.process import ROOT

# arq needs an old client of Redis, the others a new one: two environments.
ENVIRONMENTS = {ROOT / ".venv-peers": "requirements.txt", ROOT / ".venv-peers-arq": "requirements-arq.txt"}
NEW, OLD = ENVIRONMENTS
STAMP = ".installed"
_PREFIX = "benchmarks.peers.systems"


def _entry(
    name: str, jobs: int, *variants: Mapping[str, object], place: Path = NEW, pickups: int = 100
) -> Entry:
    return Entry(
        name=name,
        python=place / "bin" / "python",
        module=f"{_PREFIX}.{name.lower()}_peer",
        variants=variants,
        jobs=jobs,
        pickups=pickups,
        migrated=False,
    )


PEERS = (
    _entry("pgqueuer", 30_000, *({"batch": size} for size in (50, 200, 500, 1_000)), pickups=200),
    _entry("chancy", 4_000, {"concurrency": 100}, {"concurrency": 500}),
    _entry("Dramatiq", 3_000, {"processes": 1, "threads": 8}, {"processes": 2, "threads": 8}),
    _entry("taskiq", 3_000, {"tasks": 100, "prefetch": 0}, {"tasks": 100, "prefetch": 100}),
    _entry("SAQ", 3_000, {"concurrency": 10}, {"concurrency": 100}),
    _entry("arq", 2_000, {"max_jobs": 10}, {"max_jobs": 100}, place=OLD, pickups=25),
    _entry("Celery", 1_000, {"pool": "prefork", "concurrency": 2}, {"pool": "threads", "concurrency": 8}),
    _entry("Procrastinate", 1_000, {"concurrency": 10}, {"concurrency": 50}),
    _entry("RQ", 300, {"fork": False}, pickups=50),
)


def installed() -> list[Entry]:
    """Those that `make bench-peers` has installed."""
    return [peer for peer in PEERS if (peer.python.parents[1] / STAMP).exists()]


def install() -> None:
    """Create the environments; a complete one is kept."""
    for place, requirements in ENVIRONMENTS.items():
        wanted = Path(__file__).with_name(requirements)
        stamp = place / STAMP
        if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted.read_text(encoding="utf-8"):
            continue
        print(f"==> installing {requirements} into {place.name}", flush=True)
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        subprocess.run(
            [
                place / "bin" / "python",
                "-m",
                "pip",
                "install",
                "-q",
                "--disable-pip-version-check",
                "-r",
                wanted,
            ],
            check=True,
        )
        stamp.write_text(wanted.read_text(encoding="utf-8"), encoding="utf-8")


def versions() -> dict[str, str]:
    """The version of each installed peer, from the pinned requirements."""
    pins: dict[str, str] = {}
    for requirements in ENVIRONMENTS.values():
        for line in Path(__file__).with_name(requirements).read_text(encoding="utf-8").splitlines():
            name, _, version = line.partition("==")
            pins.setdefault(name.partition("[")[0].lower(), version)
    return {peer.name: pins[peer.name.lower()] for peer in installed()}
