"""LiteLLM in an environment of its own: `python -m benchmarks.router.peers` installs it."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.harness.statistics import percentile
from benchmarks.router.measuring import Measured
from benchmarks.router.processes import Server

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".venv-peers-router"
PYTHON = PLACE / "bin" / "python"
STAMP = PLACE / ".installed"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
PROGRAM = Path(__file__).with_name("litellm_router.py")


def installed() -> bool:
    return STAMP.exists() and STAMP.read_text(encoding="utf-8") == REQUIREMENTS.read_text(encoding="utf-8")


def install() -> None:
    """Create the environment; a complete one is kept."""
    if installed():
        return
    print(f"==> installing {REQUIREMENTS.name} into {PLACE.name}", flush=True)
    shutil.rmtree(PLACE, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
    pip = [str(PYTHON), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", str(REQUIREMENTS)]
    subprocess.run(pip, check=True)
    STAMP.write_text(REQUIREMENTS.read_text(encoding="utf-8"), encoding="utf-8")


def version() -> str:
    pins = dict(
        line.split("==", 1) for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if "==" in line
    )
    return pins["litellm"]


async def measure_router_class(gpu: Server, requests: int, in_flight: int) -> Measured:
    """LiteLLM's Router class runs inside the caller's process."""
    process = await asyncio.create_subprocess_exec(
        str(PYTHON),
        str(PROGRAM),
        *(gpu.url, str(requests), str(in_flight)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError("LiteLLM's Router class failed")
    result = json.loads(output.splitlines()[-1])
    latencies = [seconds * 1000 for seconds in result["latencies"]]
    return Measured(
        rate=requests / result["seconds"],
        per_core=requests / result["cpu"],
        p50_ms=percentile(latencies, 50),
        p99_ms=percentile(latencies, 99),
    )


if __name__ == "__main__":
    install()
