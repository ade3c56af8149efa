"""The process: settings, invalid input, health, crash, kill -9, bounded stop."""

import asyncio
import signal
import socket
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from beacon_gpusim.wiring import CRASH_EXIT_CODE
from tests.fixtures.gpusim import Gpusim, GpusimProcess, read_ledger_file, start_gpusim
from tests.fixtures.waiting import until

CALL = {"request_id": "r-1", "model": "llama", "input": {"prompt": "Why?"}}


async def test_health_state_and_metrics(gpu: Gpusim) -> None:
    assert (await gpu.http.get("/healthz")).status_code == 200
    assert (await gpu.http.get("/readyz")).status_code == 200
    await gpu.http.post("/modal", json=CALL)
    text = (await gpu.http.get("/metrics")).text
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["gpusim_calls_total", "completed"] == 1
    assert samples["gpusim_slots",] == 4
    assert samples["gpusim_slots_held",] == 0
    state = await gpu.state()
    assert (state["region"], state["slots"], state["excess"]) == ("EU", 4, 0)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/modal", 405),
        ("PUT", "/v1/execute", 405),
        ("GET", "/nothing", 404),
        ("GET", "/control/ledger?since=soon", 422),
    ],
)
async def test_unknown_routes_and_methods_are_4xx(gpu: Gpusim, method: str, path: str, status: int) -> None:
    assert (await gpu.http.request(method, path)).status_code == status


async def test_an_invalid_body_is_refused_in_its_dialect_and_not_recorded(gpu: Gpusim) -> None:
    modal = await gpu.http.post("/modal", content=b"{")
    chat = await gpu.http.post("/v1/chat/completions", json={"model": "m"})
    step = await gpu.http.post("/v1/execute", json={"meta": {}})
    large = await gpu.http.post("/modal", json={**CALL, "input": {"prompt": "x" * 300_000}})
    assert [answer.status_code for answer in (modal, chat, step, large)] == [400, 422, 422, 413]
    assert modal.json()["success"] is False
    assert chat.json()["error"]["type"] == "invalid_request_error"
    assert "meta.service_name" in step.json()["error"]["message"]
    assert await gpu.ledger() == []


async def test_unknown_models_can_be_refused() -> None:
    async with start_gpusim(unknown_models="refuse", models={"llama": {}}, time_scale=0) as gpu:
        assert (await gpu.http.post("/modal", json=CALL)).status_code == 200
        refused = await gpu.http.post("/modal", json={**CALL, "model": "gpt-9"})
        assert refused.status_code == 404
        assert "gpt-9" in refused.json()["error"]


async def test_control_routes_can_be_disabled() -> None:
    async with start_gpusim(control="off") as gpu:
        assert (await gpu.http.get("/control/stats")).status_code == 404


async def test_a_crash_ends_the_process_and_is_in_the_ledger_file(tmp_path: Path) -> None:
    ledger_file = tmp_path / "ledger.jsonl"
    async with start_gpusim(ledger_file=ledger_file, models={"slow": {"run": 600}}, slots=2) as gpu:
        running = asyncio.ensure_future(gpu.http.post("/modal", json={**CALL, "model": "slow"}))
        await gpu.wait_running(1)
        await gpu.add_fault(kind="crash", model="llama", after_s=0.02)
        with pytest.raises(httpx.RemoteProtocolError):
            await gpu.http.post("/modal", json={**CALL, "request_id": "r-2"})
        await asyncio.gather(running, return_exceptions=True)
        assert await asyncio.to_thread(gpu.process.wait_exit) == CRASH_EXIT_CODE
    calls = {call["request_id"]: call["outcome"] for call in read_ledger_file(ledger_file)}
    assert calls == {"r-1": None, "r-2": "crashed"}


async def test_the_ledger_file_survives_kill_9_and_a_second_process_adds_to_it(tmp_path: Path) -> None:
    ledger_file = tmp_path / "ledger.jsonl"
    settings = {
        "ledger_file": ledger_file,
        "models": {"slow": {"run": 600}},
        "default_run": 0,
        "default_load": 0,
    }
    async with start_gpusim(**settings) as gpu:
        await gpu.http.post("/modal", json=CALL)
        running = asyncio.ensure_future(gpu.http.post("/modal", json={**CALL, "model": "slow"}))
        await gpu.wait_running(1)
        gpu.process.kill()
        await asyncio.gather(running, return_exceptions=True)
    async with start_gpusim(**settings) as gpu:
        await gpu.http.post("/modal", json=CALL)
    calls = read_ledger_file(ledger_file)
    assert [(call["model"], call["outcome"]) for call in calls] == [
        ("llama", "completed"),
        ("slow", None),
        ("llama", "completed"),
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_ends_running_calls_after_their_grace_and_exits_0(number: signal.Signals) -> None:
    async with start_gpusim(stop_grace_s=0.2, models={"slow": {"run": 600}}) as gpu:
        body = {"meta": {"service_name": "slow"}, "payload": {}}
        running = asyncio.ensure_future(gpu.http.post("/v1/execute", json=body))
        await gpu.wait_running(1)
        gpu.process.send(number)
        assert await asyncio.to_thread(gpu.process.wait_exit) == 0
        assert (await running).status_code == 503
        assert "Traceback" not in gpu.process.log


async def test_a_taken_port_gives_one_error_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RuntimeError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            async with start_gpusim(port=port):
                pass


async def test_an_invalid_setting_prevents_the_start() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)ended with 2 .*gpusim cannot start.*slots"):
        async with start_gpusim(slots=-4):
            pass


async def test_an_abandoned_connection_does_not_keep_a_slot(
    shared_process: GpusimProcess, gpu: Gpusim
) -> None:
    """A client that is killed: its kernel closes the connection."""
    host, port = shared_process.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    body = b'{"meta": {"service_name": "slow"}, "payload": {}}'
    writer.write(b"POST /v1/execute HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await gpu.wait_running(1)
    writer.transport.abort()
    await gpu.wait_running(0)

    async def aborted() -> bool:
        return [call["outcome"] for call in await gpu.ledger()] == ["aborted"]

    await until(aborted, "the call is aborted")
