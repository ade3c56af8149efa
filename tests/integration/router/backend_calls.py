"""Calls to a backend over real connections, without a scheduler."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import gettempdir

from yarl import URL

from beacon_config.mappings import HttpMapping
from beacon_config.topology import Dialect
from beacon_contracts.files import InputFile
from beacon_contracts.inference import StepMeta
from beacon_files import open_store
from beacon_lifecycle import SystemClock
from beacon_router.backends import DIRECT, Backend, BackendClient, BackendTransport
from beacon_router.backends.http_backend import HttpBackend
from beacon_router.backends.registry import adapter_of
from beacon_router.backends.wire import AccessCheck, BackendWire, FileRules
from beacon_router.scheduling import RequestId
from beacon_router.service.inference import InferenceSpec

PATHS = {Dialect.MODAL: "/modal", Dialect.OPENAI: "/v1", Dialect.EXECUTE: "/v1/execute", Dialect.HTTP: ""}


def spec_of(
    request_id: str,
    model: str,
    given: bytes,
    *,
    params: bytes = b"{}",
    context: bytes = b"{}",
    meta: StepMeta | None = None,
    files: tuple[InputFile, ...] = (),
) -> InferenceSpec:
    return InferenceSpec(
        RequestId(request_id),
        model,
        "EU",
        4,
        given,
        params=params,
        context=context,
        meta=meta,
        files=files,
    )


NO_FILES = FileRules(open_store(str(Path(gettempdir()) / "beacon-no-files")), max_bytes=1_000_000)
"""For calls without files; its directory is created at the first file."""


def backend_at(
    dialect: str,
    url: str,
    client: BackendClient,
    *,
    mapping: HttpMapping | None = None,
    files: FileRules = NO_FILES,
    transport: BackendTransport = DIRECT,
    run_timeout_s: float | None = None,
    max_response_bytes: int = 100_000,
) -> Backend:
    name = Dialect(dialect)
    wire = BackendWire(
        client,
        SystemClock(),
        files,
        access_check=AccessCheck(URL(url) / "healthz", {}),
        transport=transport,
        max_response_bytes=max_response_bytes,
    )
    assert name not in (Dialect.ASYNC, Dialect.COMFYUI)
    return HttpBackend(
        adapter_of(name, URL(url + PATHS[name]), {}, mapping), wire, run_timeout_s=run_timeout_s
    )


@asynccontextmanager
async def open_client(**settings: float) -> AsyncIterator[BackendClient]:
    client = BackendClient(**settings)
    try:
        yield client
    finally:
        await client.stop()
