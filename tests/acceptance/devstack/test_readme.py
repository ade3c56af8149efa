"""The commands and programs of the README work as written."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.stack import RunningStack
from tests.fixtures.waiting import WAIT_TIMEOUT_S

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(shutil.which("curl") is None, reason="the README speaks curl"),
]

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
STARTS_IT = "make up"


def blocks() -> list[tuple[str, str]]:
    """The code blocks from «A first job» to «How it works», without the line that starts the system."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sections = readme.split("## A first job")[1].split("## How it works")[0]
    return [(kind, code) for kind, code in BLOCK.findall(sections) if not code.startswith(STARTS_IT)]


def test_the_first_steps_work(stack: RunningStack, tmp_path: Path) -> None:
    shell = "".join(code for kind, code in blocks() if kind == "sh")
    said = run(["sh", "-eu", "-c", here(shell, stack)], stack)
    for expected in ('"job_id":"job_', "JOB_COMPLETE", '"object":"chat.completion"', "runner"):
        assert expected in said.replace('": "', '":"'), said
    for number, code in enumerate(code for kind, code in blocks() if kind == "python"):
        script = tmp_path / f"{number}.py"
        script.write_text(code.replace(".beacon/outputs", str(tmp_path / "outputs")), encoding="utf-8")
        said = run([sys.executable, str(script)], stack)
        assert any(expected in said for expected in ("a cat", "JOB_COMPLETE", "generation-flux-")), said


def here(code: str, stack: RunningStack) -> str:
    """The block with the ports and the home of this test."""
    found = stack.credentials
    places = {
        "http://127.0.0.1:8000": found.runner_url,
        ".beacon/": f"{stack.home.path}/",
        ".venv/bin/": f"{shlex.quote(str(Path(sys.executable).parent))}/",
    }
    for written, real in places.items():
        assert written in code
        code = code.replace(written, real)
    return code


def run(command: list[str], stack: RunningStack) -> str:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "BEACON_HOME": str(stack.home.path)}
    done = subprocess.run(
        command,
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
