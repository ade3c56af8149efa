"""Settings of the environment: addresses, secrets and the path of the configuration file."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from beacon_config.file_store_url import checked_file_store_url


class Settings(BaseSettings):
    model_config = SettingsConfigDict(extra="ignore", frozen=True, env_ignore_empty=True)

    config: Annotated[Path, Field(validation_alias="BEACON_CONFIG")] = Path("config/beacon.toml")
    host: Annotated[str, Field(validation_alias="BEACON_ROUTER_HOST")] = "127.0.0.1"
    port: Annotated[
        int, Field(ge=0, le=65_535, validation_alias="BEACON_ROUTER_PORT", description="0: any free one")
    ] = 8100
    ready_file: Annotated[
        Path | None,
        Field(
            validation_alias="BEACON_ROUTER_READY_FILE",
            description="The base address is written here once it serves",
        ),
    ] = None
    service_token: Annotated[SecretStr, Field(min_length=8, validation_alias="BEACON_SERVICE_TOKEN")]
    state_file: Annotated[
        Path | None,
        Field(
            validation_alias="BEACON_ROUTER_STATE_FILE",
            description="The last revision of the configuration is kept here, and applies after a restart",
        ),
    ] = None
    redis_url: Annotated[str | None, Field(validation_alias="REDIS_URL")] = None
    redis_cluster: Annotated[bool, Field(validation_alias="REDIS_CLUSTER")] = False
    files_url: Annotated[
        str,
        AfterValidator(checked_file_store_url),
        Field(
            validation_alias="BEACON_FILES_URL",
            description="Where the bytes of files are, as for the runner: a directory, s3://bucket/prefix, …",
        ),
    ] = ".beacon/files"
    log_format: Annotated[Literal["console", "json"], Field(validation_alias="BEACON_LOG_FORMAT")] = "console"
    log_level: Annotated[str, Field(validation_alias="BEACON_LOG_LEVEL")] = "info"
    access_log: Annotated[bool, Field(validation_alias="BEACON_ACCESS_LOG")] = False
