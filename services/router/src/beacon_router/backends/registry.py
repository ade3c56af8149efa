"""Builds the backends of the configuration."""

from collections.abc import Mapping
from typing import assert_never

from yarl import URL

from beacon_config.topology import BackendConfig, Dialect
from beacon_lifecycle import Clock
from beacon_router.backends.client import BackendClient
from beacon_router.backends.execute import ExecuteDialect
from beacon_router.backends.http_backend import DialectAdapter, HttpBackend
from beacon_router.backends.modal import ModalDialect
from beacon_router.backends.openai import OpenAiDialect
from beacon_router.backends.types import Backend


class BackendKeyError(Exception):
    """The API key of a backend is missing from the environment or cannot be sent."""


def build_backends(
    configs: Mapping[str, BackendConfig],
    client: BackendClient,
    clock: Clock,
    environ: Mapping[str, str],
    *,
    max_response_bytes: int,
) -> dict[str, Backend]:
    return {
        name: HttpBackend(
            adapter_of(config.dialect, URL(str(config.url)), auth_headers(name, config, environ)),
            client,
            clock,
            max_response_bytes=max_response_bytes,
        )
        for name, config in configs.items()
    }


def auth_headers(name: str, config: BackendConfig, environ: Mapping[str, str]) -> dict[str, str]:
    if config.api_key_env is None:
        return {}
    key = environ.get(config.api_key_env)
    if not key:
        raise BackendKeyError(f"backend {name} needs its key in {config.api_key_env}, which is not set")
    if not key.isprintable():
        raise BackendKeyError(f"the key of backend {name} has a character that a header cannot carry")
    return {"authorization": f"Bearer {key}"}


def adapter_of(dialect: Dialect, url: URL, headers: Mapping[str, str]) -> DialectAdapter:
    match dialect:
        case Dialect.MODAL:
            return ModalDialect(url, headers)
        case Dialect.OPENAI:
            return OpenAiDialect(url, headers)
        case Dialect.EXECUTE:
            return ExecuteDialect(url, headers)
        case _:
            assert_never(dialect)
