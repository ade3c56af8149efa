"""Ctrl-C while a job is watched in a terminal."""

import asyncio
import os
import pty
import signal
import subprocess
import sys

from tests.integration.client.documents import job
from tests.integration.client.runner_stub import RunnerStub, event, stream


def test_ctrl_c_keeps_the_job_id_on_the_screen(served: RunnerStub) -> None:
    served.on("GET /api/v1/jobs/job_a", job())
    served.on("GET /api/v1/jobs/job_a/events", stream(event(1, "JOB_QUEUED"), stay=asyncio.Event()))
    terminal, side = pty.openpty()
    environ = {**os.environ, "BEACON_RUNNER_URL": served.url, "BEACON_API_KEY": "k", "TERM": "xterm"}
    command = [sys.executable, "-m", "beacon_cli", "watch", "job_a"]
    with subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=environ) as process:
        os.close(side)
        screen = b""
        while b"JOB_QUEUED" not in screen:
            screen += os.read(terminal, 4096)
        process.send_signal(signal.SIGINT)
        screen = rest(terminal)
        assert process.wait(timeout=10) == 130
    after_the_table = screen.rpartition(b"\x1b[2K")[2]
    assert b"job_a" in after_the_table


def rest(terminal: int) -> bytes:
    """The output until the process closes the terminal."""
    read = b""
    try:
        while chunk := os.read(terminal, 4096):
            read += chunk
    except OSError:  # Linux reports the closed side as an input error
        pass
    finally:
        os.close(terminal)
    return read
