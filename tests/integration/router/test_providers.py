"""Providers that answer slowly, wrongly or without an end, at each stage of a run; the files of results."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse
from yarl import URL

from beacon_config.mappings import POLLING_PRESETS, PollingMapping
from beacon_config.topology import BackendConfig
from beacon_contracts.files import InputFile
from beacon_contracts.inference import RunProgress, StepMeta
from beacon_files import open_store
from beacon_lifecycle import Clock, SystemClock
from beacon_router.backends import BackendClient, BackendError, BackendResult
from beacon_router.backends.dialects.polling import PollingApi
from beacon_router.backends.errors import means_no_instance
from beacon_router.backends.output_urls import OutputUrls
from beacon_router.backends.registry import headers_of
from beacon_router.backends.remote_backend import CallTimeouts, RemoteBackend
from beacon_router.backends.wire import AccessCheck, BackendWire, FileRules
from tests.fixtures.app_server import app_server
from tests.fixtures.waiting import until, within_timeout
from tests.integration.router.backend_calls import NO_FILES, open_client, spec_of
from tests.integration.router.backend_calls import backend_at as single_call_at
from tests.integration.router.raw_server import Connection, Server, server_that
from tests.integration.router.test_response_limits import (
    CHUNKED,
    ENDLESS,
    ENDLESS_NAMES,
    MAX_MEMORY_BYTES,
    bounded_memory,
    repeating,
)

CALL = spec_of("r-1", "owner/model", b'{"prompt":"Why?"}')
SUBMIT, STATUS, RESULT, CANCEL = "post /x", "get /status/1", "get /result/1", "post /cancel/1"
MAPPING = PollingMapping(
    submit_path="/x", status_path="/status/{id}", result_path="/result/{id}", cancel_path="/cancel/{id}"
)
ANSWERS: dict[str, Any] = {
    SUBMIT: {"id": "1"},
    STATUS: {"status": "completed"},
    RESULT: {"output": "yes"},
    CANCEL: {},
}
STAGES = pytest.mark.parametrize("stage", [SUBMIT, STATUS, RESULT], ids=["submit", "status", "result"])
SHORT = CallTimeouts(submit_s=0.2, poll_s=0.2, result_s=0.2, cancel_s=0.2)


@dataclass
class Observed:
    """What a backend reports of its run."""

    run_id: str | None = None
    detached: bool = False
    name: str | None = None
    progress: RunProgress | None = None
    left: list[str] = field(default_factory=list)

    def submitting(self) -> None: ...

    def waiting(self) -> None: ...

    def running(self) -> None: ...

    def named(self, run_id: str) -> None:
        self.name = run_id

    def progressed(self, progress: RunProgress) -> None:
        self.progress = progress

    def not_cancelled(self, run_id: str) -> None:
        self.left.append(run_id)


@pytest.fixture
async def client() -> AsyncIterator[BackendClient]:
    async with open_client() as opened:
        yield opened


def http(
    body: Any, *, kind: str = "application/json", length: int | None = None, head: str = "200 OK"
) -> bytes:
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    size = len(content) if length is None else length
    return b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        head.encode(),
        kind.encode(),
        size,
        content,
    )


@asynccontextmanager
async def provider(answers: dict[str, Any], seen: list[str] | None = None) -> AsyncIterator[Server]:
    """Each request gets the answer of its line: bytes as they are, nothing for None, else JSON.

    Of several, the next one each time.
    """

    async def handler(connection: Connection) -> None:
        while (line := await connection.request()) is not None:
            asked = line.removesuffix(" http/1.1")
            if seen is not None:
                seen.append(asked)
            answer = answers.get(asked, ANSWERS.get(asked))
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
            if answer is None:
                await asyncio.Event().wait()
            await connection.send(answer if isinstance(answer, bytes) else http(answer))
            if b"length: 9999" in (answer if isinstance(answer, bytes) else b""):
                return

    async with server_that(handler) as server:
        yield server


def backend_at(
    url: str,
    client: BackendClient,
    *,
    mapping: PollingMapping = MAPPING,
    files: FileRules = NO_FILES,
    timeouts: CallTimeouts = SHORT,
    clock: Clock | None = None,
    durable: bool = True,
    scale_to_zero: bool = False,
) -> RemoteBackend:
    clock = clock or SystemClock()
    wire = BackendWire(
        client,
        clock,
        files,
        access_check=AccessCheck(URL(url), {}, mapping.account_locked),
        max_response_bytes=100_000,
    )
    api = PollingApi(URL(url), {}, mapping, wire)
    api.durable = durable
    return RemoteBackend(api, clock, wire.outputs, scale_to_zero=scale_to_zero, timeouts=timeouts)


async def failed(backend: RemoteBackend, observed: Observed | None = None) -> BackendError:
    async with within_timeout("the call fails"):
        with pytest.raises(BackendError) as raised:
            await backend.run(CALL, observer=observed or Observed())
    return raised.value


@STAGES
async def test_a_hang_ends_at_each_stage(stage: str, client: BackendClient, monkeypatch: Any) -> None:
    monkeypatch.setattr("beacon_router.backends.remote_backend.FAILING_POLLS_TIMEOUT_S", 0.0)
    async with provider({stage: None}) as server:
        error = await failed(backend_at(server.url, client))

    assert error.code == ("submission_unanswered" if stage == SUBMIT else "run_timeout")
    assert error.remote_alive == (stage != SUBMIT), "the next attempt continues the run"


@STAGES
async def test_a_page_in_place_of_json_names_the_cause(stage: str, client: BackendClient) -> None:
    page = http(b"<html>502 Bad Gateway</html>", kind="text/html")
    async with provider({stage: page}) as server:
        error = await failed(backend_at(server.url, client))

    assert error.code == ("submission_unanswered" if stage == SUBMIT else "bad_payload")
    assert "not JSON (text/html, 28 bytes)" in error.message
    assert not error.retryable


@STAGES
async def test_a_body_that_is_shorter_than_its_length_is_not_a_result(
    stage: str, client: BackendClient, monkeypatch: Any
) -> None:
    monkeypatch.setattr("beacon_router.backends.remote_backend.FAILING_POLLS_TIMEOUT_S", 0.0)
    async with provider({stage: http(ANSWERS[stage], length=9999)}) as server:
        error = await failed(backend_at(server.url, client))

    assert error.code == ("submission_unanswered" if stage == SUBMIT else "connection_lost")


@STAGES
@pytest.mark.parametrize("part", ["header value", "trailers", "tiny chunks", "body"])
async def test_an_endless_answer_fails_in_bounded_memory(
    part: str, stage: str, client: BackendClient, monkeypatch: Any
) -> None:
    monkeypatch.setattr("beacon_router.backends.remote_backend.FAILING_POLLS_TIMEOUT_S", 0.0)
    endless = repeating(*ENDLESS[ENDLESS_NAMES.index(part)])
    lines = list(ANSWERS)[: list(ANSWERS).index(stage)]

    async def handler(connection: Connection) -> None:
        for line in lines:
            if connection.number <= len(lines):
                assert await connection.request() is not None
                await connection.send(http(ANSWERS[line]))
        await endless(connection)

    async with server_that(handler) as server:
        backend = backend_at(server.url, client, timeouts=CallTimeouts())
        with bounded_memory(MAX_MEMORY_BYTES):
            error = await failed(backend)
        await until(lambda: server.open == 0, "the connections are closed")

    assert error.code in ("bad_payload", "connection_lost", "submission_unanswered")


async def test_endless_progress_needs_bounded_memory(client: BackendClient) -> None:
    """Of a dialect with one call: it ends with the connection or with its run timeout."""
    head = CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-type: application/x-ndjson\r\n\r\n")
    report = b'{"progress":0.5,"message":"step"}%b\n' % (b" " * 4_000)
    async with server_that(repeating(head, b"%x\r\n%b\r\n" % (len(report), report))) as server:
        backend = single_call_at("modal", server.url, client)
        observed = Observed()
        with bounded_memory(MAX_MEMORY_BYTES), pytest.raises(BackendError, match="connection_lost"):
            await backend.run(CALL, observer=observed)

    assert observed.progress == RunProgress(percent=50.0, message="step")


@pytest.mark.parametrize("durable", [True, False])
async def test_only_runs_in_the_memory_of_a_server_die_with_it(
    durable: bool, client: BackendClient, monkeypatch: Any
) -> None:
    """ComfyUI keeps its queue in memory: the next attempt may run on another instance."""
    for limit in ("FAILING_POLLS_TIMEOUT_S", "LOST_AFTER_S"):
        monkeypatch.setattr(f"beacon_router.backends.remote_backend.{limit}", 0.0)
    async with provider({}) as server:
        url = server.url
    observed = Observed(run_id="1")
    error = await failed(backend_at(url, client, durable=durable), observed)

    assert (error.code, error.remote_alive) == ("backend_unreachable", durable)
    assert observed.left == ([] if durable else ["1"]), "cancelled there if it comes back after all"


async def test_a_state_that_is_not_configured_fails_with_its_word(client: BackendClient) -> None:
    async with provider({STATUS: {"status": "EXPLODED"}}) as server:
        error = await failed(backend_at(server.url, client))

    assert error.code == "bad_payload"
    assert "'EXPLODED'" in error.message


@pytest.mark.parametrize(
    ("stage", "start", "end"),
    [(RESULT, b"", b""), (STATUS, b'{"status":"failed","error":', b"}")],
    ids=["result", "error"],
)
async def test_too_many_levels_are_no_defect_of_the_router(
    stage: str, start: bytes, end: bytes, client: BackendClient
) -> None:
    answer = http(start + b"[" * 500 + b"]" * 500 + end)
    async with provider({stage: answer}) as server:
        error = await failed(backend_at(server.url, client))

    assert error.code == "bad_payload"
    assert "cannot be encoded" in error.message


@pytest.mark.parametrize("scale_to_zero", [True, False])
async def test_a_submission_to_a_backend_without_an_instance_waits_for_one(
    scale_to_zero: bool, client: BackendClient
) -> None:
    """Else a 502 may mean that the provider has accepted the run and its answer was lost."""
    async with provider({SUBMIT: http({}, head="502 Bad Gateway")}) as server:
        error = await failed(backend_at(server.url, client, scale_to_zero=scale_to_zero))

    assert means_no_instance(error) is scale_to_zero
    assert error.code == ("backend_unavailable" if scale_to_zero else "submission_unanswered")


async def test_one_lost_poll_does_not_end_the_run(client: BackendClient) -> None:
    polls = [http({}, head="502 Bad Gateway"), http(b"<html>", kind="text/html"), {"status": "completed"}]
    async with provider({STATUS: polls}) as server:
        observed = Observed()
        result = await backend_at(server.url, client).run(CALL, observer=observed)

    assert result.output == b'{"output":"yes"}'
    assert observed.name == "1"


class ImpatientClock(SystemClock):
    """Records the pauses and skips them."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 3))
        await asyncio.sleep(0)


async def test_polls_wait_longer_each_time_and_as_long_as_the_provider_asks(client: BackendClient) -> None:
    busy = http({}, head="429 Too Many Requests\r\nretry-after: 30")
    running = {"status": "running"}
    clock = ImpatientClock()
    async with provider({STATUS: [running, running, busy, running, {"status": "completed"}]}) as server:
        await backend_at(server.url, client, clock=clock).run(CALL, observer=Observed())

    assert clock.pauses == [0.2, 0.28, 0.392, 30.0, 0.768]


async def test_a_run_with_a_client_id_is_cancelled_before_its_answer(
    client: BackendClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PollingApi, "new_id", lambda _: "1")
    seen: list[str] = []
    async with provider({SUBMIT: None}, seen) as server:
        observed = Observed()
        backend = backend_at(server.url, client, timeouts=CallTimeouts(cancel_s=0.2))
        run = asyncio.ensure_future(backend.run(CALL, observer=observed))
        await until(lambda: seen, "it is submitted")
        run.cancel()
        async with within_timeout("the call ends"):
            await asyncio.wait([run])

    assert observed.name == "1"
    assert seen == [SUBMIT, CANCEL]


async def test_a_run_with_a_client_id_is_cancelled_without_an_answer(
    client: BackendClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PollingApi, "new_id", lambda _: "1")
    seen: list[str] = []
    async with provider({SUBMIT: None}, seen) as server:
        error = await failed(backend_at(server.url, client))

    assert error.code == "submission_unanswered"
    assert seen == [SUBMIT, CANCEL]


KEYED = MAPPING.model_copy(update={"idempotency_header": "Idempotency-Key"})


@asynccontextmanager
async def provider_with_keys(*statuses: int) -> AsyncIterator[tuple[str, list[str]]]:
    """Its address, and the keys of the submissions: each is answered with the next status."""
    app = FastAPI()
    keys: list[str] = []
    left = list(statuses)

    @app.post("/x")
    async def submit(request: Request) -> JSONResponse:
        keys.append(request.headers["idempotency-key"])
        return JSONResponse({"id": "1"}, status_code=left.pop(0) if left else 200)

    @app.get("/status/1")
    async def status() -> Any:
        return {"status": "completed"}

    @app.get("/result/1")
    async def result() -> Any:
        return {"output": "yes"}

    async with app_server(app) as url:
        yield url, keys


async def test_an_unanswered_submission_is_repeated_with_its_key(client: BackendClient) -> None:
    clock = ImpatientClock()
    async with provider_with_keys(504, 502) as (url, keys):
        result = await backend_at(url, client, mapping=KEYED, clock=clock).run(CALL, observer=Observed())

    assert result.output == b'{"output":"yes"}'
    assert (len(keys), len(set(keys))) == (3, 1)
    assert clock.pauses[:2] == [1.0, 4.0]


async def test_a_submission_that_is_never_answered_fails_after_some_repetitions(
    client: BackendClient,
) -> None:
    async with provider_with_keys(*[504] * 9) as (url, keys):
        error = await failed(backend_at(url, client, mapping=KEYED, clock=ImpatientClock()))

    assert (error.code, error.retryable) == ("submission_unanswered", False)
    assert (len(keys), len(set(keys))) == (4, 1)


async def test_each_attempt_has_a_key_of_its_own(client: BackendClient) -> None:
    """Also those of an execution that its job retries: the provider would answer with the failed run."""
    later = CALL._replace(meta=StepMeta(job_id="job", attempt=2))
    async with provider_with_keys() as (url, keys):
        backend = backend_at(url, client, mapping=KEYED)
        for call, attempt in ((CALL, 1), (CALL, 1), (CALL, 2), (later, 1)):
            await backend.run(call, attempt=attempt, observer=Observed())

    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


async def test_a_run_that_cannot_be_cancelled_is_reported(client: BackendClient) -> None:
    """The router repeats the cancel: the run is paid for."""
    answers = {STATUS: {"status": "running"}, CANCEL: http({}, head="503 Service Unavailable")}
    async with provider(answers) as server:
        observed = Observed()
        run = asyncio.ensure_future(backend_at(server.url, client).run(CALL, observer=observed))
        await until(lambda: observed.name, "it has begun")
        run.cancel()
        async with within_timeout("the call ends"):
            await asyncio.wait([run])

    assert observed.left == ["1"]


@pytest.mark.parametrize(
    ("preset", "state", "expected"),
    [
        ("replicate", {"status": "failed", "error": "CUDA out of memory"}, "CUDA out of memory"),
        (
            "runpod",
            {
                "status": "FAILED",
                "error": '{"error_type": "x", "error_message": "no CUDA", "error_traceback": "…"}',
            },
            "no CUDA",
        ),
        ("runpod", {"status": "FAILED", "error": "no weights"}, "no weights"),
        (
            "fal",
            {"status": "COMPLETED", "error": "runner lost", "error_type": "runner_disconnected"},
            "runner lost",
        ),
    ],
)
async def test_the_error_of_a_provider_reaches_the_user(
    preset: str, state: dict[str, Any], expected: str, client: BackendClient
) -> None:
    base = "/owner/model/requests/1"
    answers = {
        "replicate": {"post /predictions": {"id": "1"}, "get /predictions/1": state},
        "runpod": {"post /run": {"id": "1"}, "get /status/1": state},
        "fal": {"post /owner/model": {"response_url": base}, f"get {base}/status?logs=1": state},
    }
    async with provider(answers[preset]) as server:
        if preset == "fal":
            answers[preset]["post /owner/model"] = {"response_url": server.url + base}
        error = await failed(backend_at(server.url, client, mapping=POLLING_PRESETS[preset]))

    assert (error.code, error.message, error.retryable) == ("backend_error", expected, False)


@pytest.mark.parametrize(
    ("body", "is_fault"),
    [
        ({"detail": "User is locked. Reason: Exhausted balance. Top up your balance."}, True),
        ({"detail": "User is locked. Reason: Admin lock."}, True),
        ({"detail": "The prompt 'User is locked' is not allowed"}, False),
        ({"detail": [{"msg": "User is locked"}]}, False),
        (["User is locked"], False),
        (b"User is locked", False),
    ],
)
async def test_a_locked_account_of_fal_is_no_fault_of_the_request(
    body: Any, is_fault: bool, client: BackendClient
) -> None:
    """fal answers 403 to it, as it does to a request that is not allowed."""
    answers = {"post /owner/model": http(body, head="403 Forbidden"), "get /": {}}
    async with provider(answers) as server:
        error = await failed(backend_at(server.url, client, mapping=POLLING_PRESETS["fal"]))

    assert (error.fault is not None) is is_fault
    assert error.code == ("backend_unauthorized" if is_fault else "request_forbidden")
    assert error.retryable is is_fault


@pytest.mark.parametrize(
    ("preset", "scheme"), [("replicate", "Bearer"), ("runpod", "Bearer"), ("fal", "Key")]
)
def test_a_key_is_sent_as_the_provider_expects(preset: str, scheme: str) -> None:
    document = {
        "dialect": "async",
        "preset": preset,
        "url": "http://x",
        "models": ["m"],
        "api_key_env": "KEY",
    }
    config = BackendConfig.model_validate(document)

    assert headers_of("gpu", config, {"KEY": "secret-1"}) == {"authorization": f"{scheme} secret-1"}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("run-7", "/status/run-7"),
        (17, "/status/17"),
        ("https://elsewhere.example/owner/requests/7?x=1", "/status/owner/requests/7"),
    ],
)
async def test_the_id_of_a_run_is_a_path_at_the_configured_host(
    given: object, path: str, client: BackendClient
) -> None:
    seen: list[str] = []
    answers = {SUBMIT: {"id": given}, f"get {path}": {"status": "failed", "error": "it has failed"}}
    async with provider(answers, seen) as server:
        error = await failed(backend_at(server.url, client))

    assert error.message == "it has failed"
    assert seen == [SUBMIT, f"get {path}"]


@pytest.mark.parametrize("given", [None, True, {}, "", "../admin", "a b", "x" * 500, "a?b=c", "a#b"])
async def test_an_unusable_id_of_a_run_names_the_cause(given: object, client: BackendClient) -> None:
    async with provider({SUBMIT: {"id": given}}) as server:
        error = await failed(backend_at(server.url, client))

    assert error.code == "submission_unanswered"
    assert "no usable id at 'id'" in error.message


@pytest.mark.parametrize(
    ("preset", "start"),
    [("replicate", "data:image/png;base64,"), ("runpod", ""), ("fal", "data:image/png;base64,")],
)
async def test_a_file_of_the_input_is_sent_as_the_provider_expects(
    preset: str, start: str, client: BackendClient, tmp_path: Path
) -> None:
    async def photo() -> AsyncIterator[bytes]:
        yield b"photo"

    store = open_store(str(tmp_path))
    await store.put("inputs/photo", photo(), max_bytes=100)
    name = "file_01k9x7p4f8q2r6s0t3v5w7y9za"
    file = InputFile(id=name, object="inputs/photo", name="p.png", content_type="image/png", bytes=5)
    call = spec_of("r-1", "m", orjson.dumps({"image": {"file": name}}), files=(file,))
    bodies: list[Any] = []

    async def handler(connection: Connection) -> None:
        await connection.request()
        bodies.append(orjson.loads(connection.body))
        await connection.send(http({"detail": "seen"}, head="422 Unprocessable Content"))

    async with server_that(handler) as server, within_timeout("the call fails"):
        mapping, files = POLLING_PRESETS[preset], FileRules(store, 1_000)
        with pytest.raises(BackendError, match="422"):
            await backend_at(server.url, client, mapping=mapping, files=files).run(call, observer=Observed())

    assert bodies[0].get("input", bodies[0]) == {"image": f"{start}cGhvdG8="}


async def test_a_result_by_url_is_kept_as_a_file(client: BackendClient, tmp_path: Path) -> None:
    """Replicate's files are on hosts of their own, and expire within an hour."""
    picture = http(b"\x89PNG\r\n\x1a\npicture", kind="image/png")
    async with provider({"get /out.png": picture}) as delivery:
        state = {"status": "succeeded", "output": [f"{delivery.url}/out.png"], "error": None}
        answers = {"post /predictions": {"id": "1", "status": "starting"}, "get /predictions/1": state}
        async with provider(answers) as server:
            host = URL(delivery.url).authority
            urls = OutputUrls(client, URL(server.url), [host], headers={"authorization": "Bearer secret"})
            files = FileRules(open_store(str(tmp_path)), 1_000_000, urls=urls)
            backend = backend_at(server.url, client, mapping=POLLING_PRESETS["replicate"], files=files)
            result: BackendResult = await backend.run(CALL, observer=Observed())

    (file,) = result.files
    assert (file.name, file.content_type) == ("out.png", "image/png")
    assert orjson.loads(result.output)[0]["file"] == file.id
