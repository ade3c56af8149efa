"""From the configuration to one adapter per backend."""

from collections.abc import Mapping
from typing import assert_never

from yarl import URL

from beacon_config.topology import BackendConfig, Dialect
from beacon_router.backends.calls import Backend
from beacon_router.backends.execute import ExecuteBackend
from beacon_router.backends.modal import ModalBackend
from beacon_router.backends.openai import OpenAiBackend
from beacon_router.backends.sender import HttpSender


class MissingKeyError(Exception):
    """A backend's key is not in the environment."""


def build_backends(
    configs: Mapping[str, BackendConfig], sender: HttpSender, environ: Mapping[str, str]
) -> dict[str, Backend]:
    return {
        name: _build(config, sender, auth_headers(name, config, environ)) for name, config in configs.items()
    }


def auth_headers(name: str, config: BackendConfig, environ: Mapping[str, str]) -> dict[str, str]:
    if config.api_key_env is None:
        return {}
    key = environ.get(config.api_key_env)
    if not key:
        raise MissingKeyError(f"backend {name} needs its key in {config.api_key_env}, which is not set")
    return {"authorization": f"Bearer {key}"}


def _build(config: BackendConfig, sender: HttpSender, headers: dict[str, str]) -> Backend:
    url = URL(str(config.url))
    match config.dialect:
        case Dialect.MODAL:
            return ModalBackend(sender, url, headers)
        case Dialect.OPENAI:
            return OpenAiBackend(sender, url, headers)
        case Dialect.EXECUTE:
            return ExecuteBackend(sender, url, headers)
        case _:
            assert_never(config.dialect)
