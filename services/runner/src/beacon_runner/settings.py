"""Settings from the environment: addresses, secrets and the path of the configuration file."""

from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from beacon_config.file_store_url import checked_file_store_url
from beacon_contracts.api_keys import is_api_key


class Role(StrEnum):
    """Of a process; `all` is the other three."""

    API = "api"
    WORKER = "worker"
    RELAY = "relay"
    ALL = "all"


class DatabaseSettings(BaseSettings):
    """All that `migrate` needs."""

    model_config = SettingsConfigDict(
        extra="ignore", populate_by_name=True, frozen=True, env_ignore_empty=True
    )

    database_url: Annotated[str, Field(validation_alias="DATABASE_URL", pattern=r"^postgres(ql)?://")]
    log_format: Annotated[Literal["console", "json"], Field(validation_alias="BEACON_LOG_FORMAT")] = "console"
    log_level: Annotated[str, Field(validation_alias="BEACON_LOG_LEVEL")] = "info"


class BootstrapSettings(DatabaseSettings):
    """The two keys of a first start; a key that is not given is generated and printed."""

    config_path: Annotated[Path, Field(validation_alias="BEACON_CONFIG")] = Path("config/beacon.toml")
    user_key: Annotated[SecretStr | None, Field(validation_alias="BEACON_BOOTSTRAP_USER_KEY")] = None
    admin_key: Annotated[SecretStr | None, Field(validation_alias="BEACON_BOOTSTRAP_ADMIN_KEY")] = None
    apply_config: Annotated[
        bool,
        Field(
            validation_alias="BEACON_BOOTSTRAP_APPLY_CONFIG",
            description="Apply the file as a new revision if it has changed since it was last read",
        ),
    ] = False

    @field_validator("user_key", "admin_key")
    @classmethod
    def _has_key_format(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and not is_api_key(key.get_secret_value()):
            raise ValueError(
                "must be bk_, 8 lower-case letters or digits, _, and 43 random letters, digits, - or _; "
                "leave it out to generate one"
            )
        return key


class RunnerSettings(DatabaseSettings):
    redis_url: Annotated[str, Field(validation_alias="REDIS_URL")]
    redis_cluster: Annotated[bool, Field(validation_alias="REDIS_CLUSTER")] = False
    config_path: Annotated[Path, Field(validation_alias="BEACON_CONFIG")] = Path("config/beacon.toml")
    host: Annotated[str, Field(validation_alias="BEACON_RUNNER_HOST")] = "127.0.0.1"
    port: Annotated[int, Field(validation_alias="BEACON_RUNNER_PORT", ge=0, le=65_535)] = 8000
    ready_file: Annotated[
        Path | None,
        Field(
            validation_alias="BEACON_RUNNER_READY_FILE",
            description="The base address is written here once it serves",
        ),
    ] = None
    access_log: Annotated[bool, Field(validation_alias="BEACON_ACCESS_LOG")] = False
    router_urls: Annotated[tuple[str, ...], NoDecode, Field(validation_alias="BEACON_ROUTER_URLS")] = (
        "http://127.0.0.1:8100",
    )
    service_token: Annotated[SecretStr, Field(validation_alias="BEACON_SERVICE_TOKEN")] = SecretStr("")

    files_url: Annotated[
        str,
        AfterValidator(checked_file_store_url),
        Field(
            validation_alias="BEACON_FILES_URL",
            description="Where the bytes of files are: a directory, s3://bucket/prefix, gs://… or az://…",
        ),
    ] = ".beacon/files"
    public_url: Annotated[
        str | None,
        Field(
            validation_alias="BEACON_PUBLIC_URL",
            pattern=r"^https?://[^?#]+$",
            description="Where backends reach this API, for those that fetch files by address",
        ),
    ] = None
    webhook_networks: Annotated[
        tuple[IPv4Network | IPv6Network, ...],
        NoDecode,
        Field(
            validation_alias="BEACON_WEBHOOK_NETWORKS",
            description="Private networks that webhooks may be sent to, separated by commas",
        ),
    ] = ()
    priority_url: Annotated[
        str | None,
        Field(
            validation_alias="PRIORITY_API_URL",
            pattern=r"^https?://",
            description="Asked for each user's class; without it the tier decides",
        ),
    ] = None

    @field_validator("public_url")
    @classmethod
    def _without_slash(cls, value: str | None) -> str | None:
        return None if value is None else value.rstrip("/")

    @field_validator("webhook_networks", mode="before")
    @classmethod
    def _split_networks(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("router_urls", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """Addresses are separated by commas."""
        if isinstance(value, str):
            return tuple(part.strip().rstrip("/") for part in value.split(",") if part.strip())
        return value
