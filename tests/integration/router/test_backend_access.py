"""Credentials of backends, and backends that refuse them: work waits, and the cause is visible."""

import asyncio
import sys
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse

from beacon_config.topology import BackendConfig
from beacon_contracts.inference import InferenceState
from beacon_router.backends import BackendError, BackendKeyError, check_backends
from beacon_router.backends.registry import headers_of
from tests.fixtures.app_server import app_server
from tests.fixtures.router import router_config, start_router
from tests.fixtures.waiting import until
from tests.integration.router.backend_calls import backend_at, open_client, spec_of

SECRET_TEXT = "your key sk-upstream is wrong"


def guarded(keys: set[str], refused_status: int = 403, opened: asyncio.Event | None = None) -> FastAPI:
    """A server with keys, which also refuses an input for its content; it answers when it is opened."""
    app = FastAPI()

    def refused() -> JSONResponse:
        return JSONResponse({"error": {"message": SECRET_TEXT}}, refused_status)

    @app.get("/healthz")
    def health(request: Request) -> JSONResponse:
        return JSONResponse({}) if request.headers.get("modal-key") in keys else refused()

    @app.post("/run")
    async def run(request: Request) -> JSONResponse:
        if opened is not None:
            await opened.wait()
        if request.headers.get("modal-key") not in keys or b"forbidden" in await request.body():
            return refused()
        return JSONResponse({"output": "done"})

    return app


def entry_of(url: str) -> dict[str, object]:
    return {
        "region": "US",
        "dialect": "modal",
        "url": f"{url}/run",
        "models": ["m"],
        "headers": {"Modal-Key": "env:GPU_KEY"},
    }


@pytest.mark.parametrize("status", [401, 402, 403, 407])
async def test_a_rotated_key_holds_the_work_until_it_is_accepted_again(status: int) -> None:
    keys: set[str] = set()
    opened = asyncio.Event()
    async with app_server(guarded(keys, status, opened)) as url:
        entry = entry_of(url)
        config = router_config({"gpu": entry}, breaker_open_s=0.2)
        async with start_router(config, GPU_KEY="k-2") as router:
            waiting = [await router.submit(f"r-{n}", prefer="respond-async") for n in range(2)]
            assert [answer.status_code for answer in waiting] == [202, 202]
            opened.set()

            async def is_refused() -> bool:
                status = (await router.queues())["regions"]["US"]["backends"][0]["breaker"]
                return bool(status["cause_code"] == "backend_unauthorized")

            await until(is_refused, "the breaker shows its cause")
            views = [await router.get(f"r-{n}") for n in range(2)]
            assert all(not view.state.terminal for view in views)
            assert all(not view.tries for view in views), "no attempt is charged"
            metrics = (await router.http.get("/metrics")).text
            labels = 'backend="gpu",cause="backend_unauthorized"'
            assert f"beacon_router_backend_unavailable{{{labels}}} 1.0" in metrics
            texts = [(await router.http.get("/inference/r-1")).text, str(await router.queues())]
            assert all(SECRET_TEXT not in text for text in texts)

            keys.add("k-2")
            done = [await router.get(f"r-{n}", prefer="wait=60") for n in range(2)]
            assert [view.state for view in done] == [InferenceState.COMPLETED] * 2
            assert [len(view.tries) for view in done] == [1, 1]


async def test_a_request_that_is_forbidden_for_its_content_fails_alone() -> None:
    async with app_server(guarded({"k-1"})) as url:
        config = router_config({"gpu": entry_of(url)}, breaker_failures=1)
        async with start_router(config, GPU_KEY="k-1") as router:
            answers = [
                await router.submit(f"r-{n}", user_id=user, given={"prompt": prompt}, prefer="wait=30")
                for n, (user, prompt) in enumerate(
                    [("ann", "forbidden"), ("ben", "forbidden"), ("ann", "forbidden"), ("eve", "a cat")]
                )
            ]
            *forbidden, allowed = [answer.json() for answer in answers]
            assert allowed["state"] == "completed"
            for view in forbidden:
                assert (view["state"], len(view["tries"])) == ("failed", 1)
                failure = view["failure"]
                assert (failure["code"], failure["retryable"]) == ("request_forbidden", False)
                assert SECRET_TEXT not in str(view)
            breaker = (await router.queues())["regions"]["US"]["backends"][0]["breaker"]
            assert (breaker["state"], breaker["failures_in_a_row"]) == ("closed", 0)


def one(**settings: object) -> dict[str, BackendConfig]:
    fields = {"dialect": "modal", "url": "https://gpu.example", "models": ["m"], **settings}
    return {"gpu": BackendConfig.model_validate(fields)}


def test_headers_and_logins_come_from_the_environment() -> None:
    given = {"headers": {"X-Team": "red", "Modal-Key": "env:KEY"}, "basic_auth": "env:LOGIN"}
    headers = headers_of("gpu", one(**given)["gpu"], {"KEY": "k", "LOGIN": "ann:pass"})
    assert headers == {"X-Team": "red", "Modal-Key": "k", "authorization": "Basic YW5uOnBhc3M="}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"headers": {"Modal-Key": "env:KEY"}, "api_key_env": "TOKEN"},
            (
                "backends.gpu.headers.Modal-Key needs the environment variable KEY, which is not set\n"
                "backends.gpu.api_key_env needs the environment variable TOKEN, which is not set"
            ),
        ),
        ({"proxy": "env:PROXY"}, "backends.gpu.proxy is not an address of the form http://host:port"),
        ({"ca": "/missing.pem"}, "backends.gpu.ca: /missing.pem is not a readable PEM file"),
        ({"headers": {"X-Key": "a\nb"}}, "the value of backends.gpu.headers.X-Key has a character"),
    ],
)
def test_unusable_credentials_are_named_by_their_key(settings: dict[str, object], message: str) -> None:
    with pytest.raises(BackendKeyError) as refused:
        check_backends(one(**settings), {"PROXY": "not an address"})
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({}, "backends.gpu.api_key_env needs the environment variable MY_KEY, which is not set"),
        (
            {"BEACON_FILES_URL": "s4://x"},
            "BEACON_FILES_URL: Value error, is neither a directory nor an address",
        ),
        ({"BEACON_SERVICE_TOKEN": "x"}, "BEACON_SERVICE_TOKEN: Value should have at least 8 items"),
    ],
)
async def test_a_router_that_cannot_start_names_the_variable(
    tmp_path: Path, environment: dict[str, str], reason: str
) -> None:
    entry = {"dialect": "http", "url": "http://127.0.0.1:9", "models": ["m"], "api_key_env": "MY_KEY"}
    path = tmp_path / "beacon.toml"
    path.write_text(router_config({"gpu": {"region": "US", **entry}}), encoding="utf-8")
    usual = {"BEACON_CONFIG": str(path), "BEACON_SERVICE_TOKEN": "x" * 20, "PYTHONPATH": ":".join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "beacon_router", env=usual | environment, stderr=asyncio.subprocess.PIPE
    )
    _, text = await process.communicate()
    assert process.returncode == 2
    assert text.decode().startswith(f"the router cannot start: {reason}")
    assert text.count(b"\n") == 1


async def test_a_name_that_cannot_be_resolved_is_the_backends_fault() -> None:
    async with open_client() as client:
        with pytest.raises(BackendError) as failed:
            await backend_at("modal", "http://gpu.invalid", client).run(spec_of("r", "m", b"{}"))
    assert failed.value.fault is not None
    assert failed.value.fault.code == "dns_failed"
