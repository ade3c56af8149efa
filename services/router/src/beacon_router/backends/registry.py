"""From the configuration to one backend each."""

from collections.abc import Mapping
from typing import assert_never

from yarl import URL

from beacon_config.topology import BackendConfig
from beacon_config.topology import Dialect as DialectName
from beacon_lifecycle import Clock
from beacon_router.backends.endpoint import Endpoint
from beacon_router.backends.execute import ExecuteDialect
from beacon_router.backends.http import Dialect, HttpBackend
from beacon_router.backends.modal import ModalDialect
from beacon_router.backends.openai import OpenAiDialect
from beacon_router.backends.pool import Pool
from beacon_router.backends.types import Backend


class MissingKeyError(Exception):
    """A backend's key is not in the environment."""


def build_backends(
    configs: Mapping[str, BackendConfig],
    pool: Pool,
    clock: Clock,
    environ: Mapping[str, str],
    *,
    answer_bytes: int,
) -> dict[str, Backend]:
    return {
        name: HttpBackend(
            dialect_of(config.dialect, URL(str(config.url)), auth_headers(name, config, environ)),
            pool,
            clock,
            answer_bytes=answer_bytes,
        )
        for name, config in configs.items()
    }


def auth_headers(name: str, config: BackendConfig, environ: Mapping[str, str]) -> dict[str, str]:
    if config.api_key_env is None:
        return {}
    key = environ.get(config.api_key_env)
    if not key:
        raise MissingKeyError(f"backend {name} needs its key in {config.api_key_env}, which is not set")
    return {"authorization": f"Bearer {key}"}


def dialect_of(name: DialectName, url: URL, headers: dict[str, str]) -> Dialect:
    match name:
        case DialectName.MODAL:
            return ModalDialect(Endpoint(url, headers))
        case DialectName.OPENAI:
            return OpenAiDialect(Endpoint(url / "chat/completions", headers))
        case DialectName.EXECUTE:
            return ExecuteDialect(Endpoint(url, headers))
        case _:
            assert_never(name)
