"""Builds the backends of the configuration."""

import ssl
from base64 import b64encode
from collections.abc import Mapping
from typing import Literal, assert_never

from yarl import URL

from beacon_config.mappings import HttpMapping
from beacon_config.topology import ENV, BackendConfig, Dialect, missing_variables
from beacon_config.workflows import WorkflowConfig
from beacon_files import FileStore
from beacon_lifecycle import Clock
from beacon_router.backends.client import BackendClient, BackendTransport
from beacon_router.backends.dialects.comfyui import ComfyApi
from beacon_router.backends.dialects.execute import ExecuteDialect
from beacon_router.backends.dialects.http_mapping import HttpDialect
from beacon_router.backends.dialects.modal import ModalDialect, spawned_modal
from beacon_router.backends.dialects.openai import OpenAiDialect
from beacon_router.backends.dialects.polling import PollingApi
from beacon_router.backends.http_backend import DialectAdapter, HttpBackend
from beacon_router.backends.output_urls import OutputUrls
from beacon_router.backends.remote_backend import RemoteApi, RemoteBackend
from beacon_router.backends.types import Backend
from beacon_router.backends.wire import AccessCheck, BackendWire, FileRules


class BackendKeyError(Exception):
    """Variables or files that backends need are missing or unusable; a line for each."""


def check_backends(configs: Mapping[str, BackendConfig], environ: Mapping[str, str]) -> None:
    """Raises BackendKeyError for all backends at once."""
    errors = missing_variables(configs, environ)
    if not errors:
        for name, config in configs.items():
            try:
                headers_of(name, config, environ)
                transport_of(name, config, environ)
            except BackendKeyError as error:
                errors.append(str(error))
    if errors:
        raise BackendKeyError("\n".join(errors))


def build_backends(
    configs: Mapping[str, BackendConfig],
    workflows: Mapping[str, WorkflowConfig],
    client: BackendClient,
    clock: Clock,
    environ: Mapping[str, str],
    *,
    transports: Mapping[str, BackendTransport],
    store: FileStore,
    max_file_bytes: int,
    max_response_bytes: int,
) -> dict[str, Backend]:
    backends: dict[str, Backend] = {}
    for name, config in configs.items():
        url, headers, transport = URL(str(config.url)), headers_of(name, config, environ), transports[name]
        urls = OutputUrls(client, url, config.output_hosts, headers=headers, transport=transport)
        wire = BackendWire(
            client,
            clock,
            FileRules(store, max_file_bytes, config.files, urls if config.fetches_outputs else None),
            access_check=AccessCheck(
                access_url(config),
                headers,
                config.polled_by.account_locked if config.dialect is Dialect.ASYNC else None,
            ),
            transport=transport,
            max_response_bytes=max_response_bytes,
        )
        backends[name] = backend_of(config, url, headers, workflows, wire=wire, clock=clock)
    return backends


def backend_of(
    config: BackendConfig,
    url: URL,
    headers: Mapping[str, str],
    workflows: Mapping[str, WorkflowConfig],
    *,
    wire: BackendWire,
    clock: Clock,
) -> Backend:
    """Of a dialect that answers with the result, or of one that submits and polls."""
    api: RemoteApi
    if config.dialect is Dialect.COMFYUI:
        api = ComfyApi(url, headers, workflows, wire, clock)
    elif config.dialect is Dialect.ASYNC:
        api = PollingApi(url, headers, config.polled_by, wire, model_names=config.model_names)
    elif config.spawn:
        api = spawned_modal(url, headers, wire)
    else:
        dialect = adapter_of(config.dialect, url, headers, config.http)
        return HttpBackend(dialect, wire, run_timeout_s=config.run_timeout_s)
    return RemoteBackend(
        api,
        clock,
        wire.outputs,
        run_timeout_s=config.run_timeout_s,
        scale_to_zero=config.scale_to_zero,
    )


def health_url(config: BackendConfig) -> URL:
    """`health_url`, or /healthz at the root of the backend's server."""
    if config.health_url is not None:
        return URL(str(config.health_url))
    return URL(str(config.url)).with_path("/healthz").with_query(None)


def access_url(config: BackendConfig) -> URL:
    """Where a GET without side effects needs the credentials: the models of an OpenAI-compatible server."""
    if config.dialect is Dialect.OPENAI:
        return URL(str(config.url)) / "models"
    return health_url(config)


def headers_of(name: str, config: BackendConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """The configured headers and credentials, with the values of their variables."""
    headers = {
        header: _value(f"backends.{name}.headers.{header}", value, environ)
        for header, value in config.headers.items()
    }
    if config.api_key_env is not None:
        key = _value(f"backends.{name}.api_key_env", ENV + config.api_key_env, environ)
        scheme = config.polled_by.key_scheme if config.dialect is Dialect.ASYNC else "Bearer"
        headers["authorization"] = f"{scheme} {key}"
    if config.basic_auth is not None:
        login = _value(f"backends.{name}.basic_auth", config.basic_auth, environ)
        headers["authorization"] = f"Basic {b64encode(login.encode()).decode('ascii')}"
    return headers


def transport_of(name: str, config: BackendConfig, environ: Mapping[str, str]) -> BackendTransport:
    return BackendTransport(_tls(name, config), _proxy(name, config, environ), config.connect_timeout_s)


def adapter_of(
    dialect: Literal[Dialect.MODAL, Dialect.OPENAI, Dialect.EXECUTE, Dialect.HTTP],
    url: URL,
    headers: Mapping[str, str],
    mapping: HttpMapping | None = None,
) -> DialectAdapter:
    match dialect:
        case Dialect.MODAL:
            return ModalDialect(url, headers)
        case Dialect.OPENAI:
            return OpenAiDialect(url, headers)
        case Dialect.EXECUTE:
            return ExecuteDialect(url, headers)
        case Dialect.HTTP:
            return HttpDialect(url, headers, mapping or HttpMapping())
        case _:
            assert_never(dialect)


def _value(key: str, value: str, environ: Mapping[str, str]) -> str:
    if value.startswith(ENV):
        variable = value.removeprefix(ENV)
        value = environ.get(variable, "")
        if not value:
            raise BackendKeyError(f"{key} needs the environment variable {variable}, which is not set")
    if not (value.isprintable() and value.isascii()):
        raise BackendKeyError(f"the value of {key} has a character that a header cannot carry")
    return value


def _tls(name: str, config: BackendConfig) -> ssl.SSLContext | bool:
    if config.ca is None:
        return config.verify
    try:
        return ssl.create_default_context(cafile=config.ca)
    except (OSError, ssl.SSLError) as error:
        raise BackendKeyError(
            f"backends.{name}.ca: {config.ca} is not a readable PEM file: {error}"
        ) from error


def _proxy(name: str, config: BackendConfig, environ: Mapping[str, str]) -> URL | None:
    if config.proxy is None:
        return None
    key = f"backends.{name}.proxy"
    try:
        url = URL(_value(key, config.proxy, environ))
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise BackendKeyError(f"{key} is not an address of the form http://host:port")
    return url
