"""The steps of the quick start lead to a server of one's own, as written: for the server of 30 lines."""

import asyncio
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.examples import png_server
from tests.acceptance.devstack.test_up import Up, home, started
from tests.fixtures.app_server import app_server
from tests.fixtures.waiting import WAIT_TIMEOUT_S

__all__ = ["home"]

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(shutil.which("curl") is None, reason="the page speaks curl"),
]

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(sh|toml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(kind: str, title: str) -> list[str]:
    """The code blocks of a section."""
    page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    section = page.split(f"## {title}\n")[1].split("\n## ")[0]
    return [code for found, code in BLOCK.findall(section) if found == kind]


class Reader:
    """Types what the page says, with the names that this machine has."""

    def __init__(self, folder: Path, places: dict[str, str]) -> None:
        self.folder = folder
        self.places = {".venv/bin/": f"{shlex.quote(str(Path(sys.executable).parent))}/", **places}

    async def types(self, code: str, **names: str) -> str:
        for written, real in {**self.places, **names}.items():
            code = code.replace(written, real)
        return await asyncio.to_thread(self._run, ["sh", "-eu", "-c", code])

    def _run(self, command: list[str]) -> str:
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "BEACON_HOME": str(self.folder / ".beacon")}
        done = subprocess.run(
            command,
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=WAIT_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


async def test_the_page_leads_to_a_server_of_ones_own(home: Path, tmp_path: Path) -> None:
    (painter,) = [block for block in blocks("toml", "1. Name your server") if "[backends.painter]" in block]
    config = tmp_path / "my-beacon.toml"
    (tmp_path / "photo.jpg").write_bytes(png_server.png(8, b"abc"))
    async with app_server(png_server.app) as url:
        config.write_text(painter.replace("http://127.0.0.1:9000", url), encoding="utf-8")
        check, start = blocks("sh", "2. Start it")[0].splitlines()
        assert start == "BEACON_CONFIG=my-beacon.toml make up"
        await Reader(tmp_path, {}).types(check)
        async with started(home, BEACON_CONFIG=str(config)) as up:
            await up.ready()
            await follow(tmp_path, up)
            assert await up.stop() == 0
            printed = await up.output()
    assert f"backend painter: http at {url.removeprefix('http://')}\n" in printed
    assert "simulated backends" not in printed


async def follow(folder: Path, up: Up) -> None:
    """Step 3, with the model `painter`."""
    (folder / ".beacon").symlink_to(up.home)
    reader = Reader(folder, {"my-model": "painter", "http://127.0.0.1:8000": up.credentials["runner_url"]})
    submit, with_files, with_curl = blocks("sh", "3. Submit a job")
    said = await reader.types(submit)
    assert "JOB_COMPLETE" in said
    assert "image/png" in said
    assert "all healthy" in said
    attach, save = with_files.splitlines()
    job = re.search(r"job_\w+", await reader.types(attach))
    assert job is not None
    await reader.types(save, JOB=job[0])
    assert (folder / "outputs" / "generation-painter-LOCAL.png").read_bytes().startswith(b"\x89PNG")
    upload, submission = with_curl.rsplit("curl ", 1)[0], "curl " + with_curl.rsplit("curl ", 1)[1]
    file = re.search(r"file_\w{26}", await reader.types(upload))
    assert file is not None
    key = upload.splitlines()[0]
    answer = await reader.types(f"{key}\n{submission}", **{"file_…": file[0]})
    assert '"job_id":"job_' in answer
