"""Answers of several documents: those before the last one report the progress, the last one is the result."""

from base64 import b64encode
from collections.abc import AsyncIterator
from os import urandom
from pathlib import Path

import orjson
import pytest

from beacon_config.mappings import HttpMapping
from beacon_contracts.inference import RunProgress
from beacon_files import open_store
from beacon_router.backends import BackendClient, BackendError
from beacon_router.backends.wire import FileRules
from tests.fixtures.waiting import within_timeout
from tests.integration.router.backend_calls import NO_FILES, backend_at, open_client, spec_of
from tests.integration.router.raw_server import Connection, server_that
from tests.integration.router.test_providers import Observed

CALL = spec_of("r-1", "m", b'{"prompt":"Why?"}')
LINES, EVENTS = "application/x-ndjson", "text/event-stream; charset=utf-8"


@pytest.fixture
async def client() -> AsyncIterator[BackendClient]:
    async with open_client() as opened:
        yield opened


class Recorder(Observed):
    def __init__(self, reports: list[RunProgress]) -> None:
        super().__init__()
        self._reports = reports

    def progressed(self, progress: RunProgress) -> None:
        self._reports.append(progress)


class Streamed:
    """Calls of a backend that sends these bytes. `reports`: all that was reported, in order."""

    def __init__(self, client: BackendClient) -> None:
        self.reports: list[RunProgress] = []
        self._client = client

    async def run(
        self,
        kind: str,
        body: bytes,
        *,
        dialect: str = "modal",
        mapping: HttpMapping | None = None,
        files: FileRules = NO_FILES,
    ) -> bytes:
        async def handler(connection: Connection) -> None:
            await connection.request()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
            await connection.send(head.encode() + body)

        observed = Recorder(self.reports)
        async with server_that(handler) as server, within_timeout("the call ends"):
            backend = backend_at(dialect, server.url, self._client, mapping=mapping, files=files)
            return (await backend.run(CALL, observer=observed)).output


@pytest.fixture
def streamed(client: BackendClient) -> Streamed:
    return Streamed(client)


async def test_lines_and_events_report_the_progress(streamed: Streamed) -> None:
    lines = b'{"progress":0.5,"message":"step 1"}\n{"percent":90}\n{"output":"yes"}\n'
    events = b": hello\n\n" + b"".join(b"event: x\ndata: %b\n\n" % line for line in lines.splitlines())

    assert await streamed.run(LINES, lines) == b'"yes"'
    assert await streamed.run(EVENTS, events + b"data: [DONE]\n\n") == b'"yes"'

    reports = [RunProgress(percent=50.0, message="step 1"), RunProgress(percent=90.0)]
    assert streamed.reports == reports * 2


@pytest.mark.parametrize(
    ("dialect", "answer"), [("execute", b'{"data":"yes"}'), ("http", b'{"result":"yes"}')]
)
async def test_the_other_dialects_read_it_too(streamed: Streamed, dialect: str, answer: bytes) -> None:
    mapping = HttpMapping(output="result", percent="done", message="text")
    report = b'{"percent":30}' if dialect == "execute" else b'{"done":30}'

    assert (
        await streamed.run(LINES, b"%b\n%b" % (report, answer), dialect=dialect, mapping=mapping) == b'"yes"'
    )
    assert streamed.reports == [RunProgress(percent=30.0)]


async def test_a_file_of_lines_is_a_result(streamed: Streamed, tmp_path: Path) -> None:
    files = FileRules(open_store(str(tmp_path)), 1_000)

    output = await streamed.run("application/jsonl", b'{"a":1}\n{"b":2}\n', dialect="http", files=files)

    assert orjson.loads(output)["bytes"] == 16
    assert streamed.reports == []


async def test_files_of_reports_are_not_kept(streamed: Streamed, tmp_path: Path) -> None:
    """A long base64 text in a report, and one in the result."""
    texts = [b64encode(urandom(100_000)).decode() for _ in range(2)]
    body = (
        orjson.dumps({"progress": 0.5, "image": texts[0]})
        + b"\n"
        + orjson.dumps({"output": {"image": texts[1]}})
    )

    output = await streamed.run(LINES, body, files=FileRules(open_store(str(tmp_path)), 1_000_000))

    assert orjson.loads(output)["image"]["bytes"] == 100_000
    assert stored_sizes(tmp_path) == [100_000]


def stored_sizes(folder: Path) -> list[int]:
    return [path.stat().st_size for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"", "no JSON document"),
        (b"\n\n", "no JSON document"),
        (b'{"progress":0.1}\n<html>', "a document of the streamed response is not JSON"),
        (b'{"progress":0.1}\n', "no output"),
        (b'{"progress":0.1}\n{"success":false,"error":"out of memory"}', "out of memory"),
    ],
)
async def test_a_stream_without_a_result_names_the_cause(streamed: Streamed, body: bytes, cause: str) -> None:
    with pytest.raises(BackendError, match=cause) as failed:
        await streamed.run(LINES, body)

    assert not failed.value.retryable
