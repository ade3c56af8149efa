"""The load of streamed chat completions, its backend, and the report."""

import asyncio
import os
from pathlib import Path

import pytest

from beacon_config import load_config
from benchmarks.harness.table import TIMES
from benchmarks.openai_api.__main__ import PATH
from benchmarks.openai_api.report import BEACON, DIRECT, LOADS, PROXY, write_report
from benchmarks.openai_api.system import CONFIG, TIER
from benchmarks.router.backend import CHAT_STREAM
from benchmarks.router.measuring import Load, Measured, measure
from benchmarks.router.processes import Server, environment


async def answer_cut_streams(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The responses end properly, but without the last event of the stream."""
    while await reader.read(65_536):
        writer.write(CHAT_STREAM[0] + b"0\r\n\r\n")
    writer.close()


@pytest.mark.parametrize("shape", ["chat", "chat_stream"])
async def test_a_load_of_chat_completions(shape: str) -> None:
    async with environment() as programs:
        backend = await programs.backend("backend", 0.0)
        measured = await measure(backend, Load(PATH, shape, requests=8, in_flight=2))
    assert 0 < measured.p50_ms <= measured.p99_ms


async def test_a_load_fails_when_a_stream_lacks_its_last_event() -> None:
    async with await asyncio.start_server(answer_cut_streams, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(RuntimeError, match="the load on cut failed"):
            await measure(Server("cut", url, os.getpid()), Load(PATH, "chat_stream", 8, 2))


def test_differences_and_ratios_are_taken_inside_a_round(tmp_path: Path) -> None:
    rounds = [
        {
            load: {
                DIRECT: Measured(rate=100, per_core=9_000, p50_ms=50 * slow, p99_ms=60 * slow),
                BEACON: Measured(rate=90, per_core=400 / slow, p50_ms=50 * slow + 4, p99_ms=60 * slow + 9),
                PROXY: Measured(rate=10, per_core=40 / slow, p50_ms=90, p99_ms=99),
            }
            for load in LOADS
        }
        for slow in (1.0, 2.0)
    ]

    text = write_report(rounds, "2 rounds", tmp_path / "page.md").read_text(encoding="utf-8")

    p50, p99, ratio = [line for line in text.splitlines() if "≤" in line or "≥" in line]
    assert p50.endswith("| 4.00 (4.00 to 4.00) ms |")
    assert p99.endswith("| 9.00 (9.00 to 9.00) ms |")
    assert ratio.endswith(f"| 10.0 (10.0 to 10.0){TIMES} |")


def test_the_configuration_limits_the_user_and_serves_the_model() -> None:
    config = load_config(CONFIG, {"BEACON_BACKEND_GPU_URL": "http://127.0.0.1:1/v1"})

    assert config.chat_models == ["m"]
    assert config.tiers[TIER].requests_per_minute
    assert str(config.backends["gpu"].url) == "http://127.0.0.1:1/v1"
