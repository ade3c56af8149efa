"""Where inference runs: regions, groups, backends, models."""

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, HttpUrl, model_validator

from beacon_config.input_schema import InputSchema
from beacon_config.mappings import POLLING_PRESETS, HostNames, HttpMapping, PollingMapping
from beacon_config.section import Count, PositiveSeconds, Seconds, Section
from beacon_config.workflows import WorkflowConfig
from beacon_contracts.capabilities import Capability
from beacon_contracts.model import Name


class Dialect(StrEnum):
    """The wire format of a backend."""

    MODAL = "modal"
    OPENAI = "openai"
    EXECUTE = "execute"
    HTTP = "http"
    ASYNC = "async"
    COMFYUI = "comfyui"


class FileInput(StrEnum):
    """How a backend gets the files that an input names."""

    URL = "url"
    BASE64 = "base64"
    MULTIPART = "multipart"


class RegionConfig(Section):
    """A place of backends. Without this section, the regions are the ones that the backends name."""

    aliases: list[Name] = Field(default_factory=list, description="Other names, in any case")
    concurrency: Count | None = Field(
        default=None, description="Concurrent runs; default: the sum of its backends' slots"
    )


class GroupConfig(Section):
    """Backends that share a provider-wide cap."""

    cap: Annotated[int, Field(ge=0, le=1_000_000_000)] = Field(
        description="Concurrent runs on all of its backends together; 0 starts none"
    )


def _variable(name: str) -> str:
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError("is not the name of an environment variable")  # but maybe a key: it is not shown
    return name


def _env_or_text(value: str) -> str:
    if value.startswith(ENV):
        _variable(value.removeprefix(ENV))
    return value


def _proxy(value: str) -> str:
    if not value.startswith((ENV, "http://", "https://")):
        raise ValueError("is neither an address that begins with http:// or https:// nor env:NAME")
    return value


def _header_names(headers: dict[str, str]) -> dict[str, str]:
    for name in headers:
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", name):
            raise ValueError(f"{name!r} is not the name of a header")
        if name.lower() in _RESERVED_HEADERS:
            raise ValueError(f"{name} is set by the router")
    return headers


ENV = "env:"
DEFAULT_REGION = "LOCAL"
_RESERVED_HEADERS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})
_KEYS_OF_DIALECTS = {
    "http": Dialect.HTTP,
    "preset": Dialect.ASYNC,
    "polling": Dialect.ASYNC,
    "model_names": Dialect.ASYNC,
    "spawn": Dialect.MODAL,
}
Secret = Annotated[str, Field(min_length=1, max_length=10_000), AfterValidator(_env_or_text)]


class BackendConfig(Section):
    """One GPU endpoint."""

    region: Name = Field(default=DEFAULT_REGION, description="The region of the backend")
    dialect: Dialect = Field(description="The wire format; docs/quickstart.md describes each")
    url: HttpUrl = Field(description="The address; BEACON_BACKEND_<NAME>_URL overrides it")
    models: Annotated[list[Name], Field(min_length=1)] = Field(description="The models that it serves")
    slots: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=1, description="Requests that it runs at the same time; 0 starts none"
    )
    drain: bool = Field(default=False, description="Running requests end, and none is started")
    loaded_models: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=1, description="Number of models that stay loaded"
    )
    group: Name | None = Field(default=None, description="The group whose cap it shares")
    simulated: bool = Field(
        default=False,
        description="`make up` starts a simulator in its place, unless its address is overridden",
    )
    health_url: HttpUrl | None = Field(
        default=None,
        description="Address of the health checks; a status below 500 is healthy. After a 403 it is "
        "requested with the credentials, except with dialect openai. Default: /healthz of the backend's "
        "server",
    )
    api_key_env: Annotated[str, AfterValidator(_variable)] | None = Field(
        default=None,
        description="The environment variable with the key, sent as `Authorization: Bearer`; with preset "
        "fal as `Authorization: Key`",
    )
    headers: Annotated[dict[str, Secret], AfterValidator(_header_names)] = Field(
        default_factory=dict, description="Sent with each request; `env:NAME` is the value of a variable"
    )
    basic_auth: Secret | None = Field(
        default=None, description="`user:password`, or `env:NAME` of a variable with both"
    )
    verify: bool = Field(default=True, description="Whether its TLS certificate is verified")
    ca: Path | None = Field(
        default=None, description="A PEM file with the authorities that sign its certificate"
    )
    proxy: Annotated[Secret, AfterValidator(_proxy)] | None = Field(
        default=None, description="Address of an HTTP proxy, or `env:NAME` of a variable with it"
    )
    connect_timeout_s: PositiveSeconds = Field(
        default=10.0, description="Time limit for opening a connection"
    )
    run_timeout_s: PositiveSeconds | None = Field(
        default=None, description="Longest run on this backend; the run timeout of the model applies too"
    )
    scale_to_zero: bool = Field(
        default=False,
        description="The backend has no running instance while it has no work: a refused connection, an "
        "unknown host name, 502 and 503 mean that an instance starts, and the work waits for it. There are "
        "no health checks",
    )
    capabilities: list[Capability] | None = Field(
        default=None,
        description="Capabilities for chat requests. Default: all with dialect openai, else none",
    )
    http: HttpMapping | None = Field(default=None, description="The mapping of the dialect `http`")
    preset: Literal["replicate", "runpod", "fal"] | None = Field(
        default=None, description="The provider whose API a backend of the dialect `async` has"
    )
    polling: PollingMapping | None = Field(
        default=None, description="The mapping of the dialect `async`, in place of a preset"
    )
    model_names: dict[Name, Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$")]] = Field(
        default_factory=dict,
        description="Dialect `async`: the backend's own names of models, where they differ",
    )
    spawn: bool = Field(
        default=False,
        description="Dialect `modal`: runs are submitted and polled, and survive a lost connection",
    )
    files: FileInput = Field(
        default=FileInput.BASE64,
        description="How files that an input names are sent: as an address, as base64 text, or as "
        "parts of a multipart/form-data request",
    )
    fetch_outputs: bool | None = Field(
        default=None,
        description="Whether URLs in outputs are fetched and kept as files: URLs of the backend's own "
        "origin and of `fetch_hosts`. Default: true if there are `fetch_hosts`, and with the presets "
        "replicate and fal",
    )
    fetch_hosts: HostNames = Field(
        default_factory=list,
        description="Hosts that outputs may be fetched from; `*.example.com` allows all names below it",
    )

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        credentials = [
            self.api_key_env,
            self.basic_auth,
            *(h for h in self.headers if h.lower() == "authorization"),
        ]
        if sum(one is not None for one in credentials) > 1:
            raise ValueError("has more than one of api_key_env, basic_auth and headers.Authorization")
        if self.ca is not None and not self.verify:
            raise ValueError("has a ca although verify is false")
        if self.fetch_hosts and not self.fetches_outputs:
            raise ValueError("has fetch_hosts although fetch_outputs is false")
        by_query = self.http is not None and self.http.method == "GET"
        if self.files is FileInput.MULTIPART and (by_query or self.dialect is Dialect.OPENAI):
            raise ValueError("cannot send files as multipart: chat completions and GET have no such body")
        return self

    @model_validator(mode="after")
    def _check_dialect(self) -> Self:
        """Refuses keys that belong to another dialect."""
        for key, dialect in _KEYS_OF_DIALECTS.items():
            if getattr(self, key) and self.dialect is not dialect:
                raise ValueError(f"has {key}, but its dialect is {self.dialect}")
        if self.dialect is Dialect.ASYNC and (self.preset is None) == (self.polling is None):
            raise ValueError(f"needs one of preset ({', '.join(POLLING_PRESETS)}) and [polling]")
        if unknown := self.model_names.keys() - set(self.models):
            raise ValueError(f"has model_names.{min(unknown)}, which is not one of its models")
        return self

    @property
    def fetches_outputs(self) -> bool:
        return bool(self.output_hosts) if self.fetch_outputs is None else self.fetch_outputs

    @property
    def output_hosts(self) -> list[str]:
        """The hosts, besides its own origin, that files of its outputs are fetched from."""
        known = self.polled_by.output_hosts if self.preset or self.polling else []
        return [*self.fetch_hosts, *known]

    @property
    def polled_by(self) -> PollingMapping:
        """The mapping of the dialect `async`."""
        if self.polling is not None:
            return self.polling
        return POLLING_PRESETS[self.preset or ""]

    def variables(self) -> dict[str, str]:
        """The environment variables that it needs, by key."""
        given = {f"headers.{name}": value for name, value in self.headers.items()}
        given |= {"basic_auth": self.basic_auth or "", "proxy": self.proxy or ""}
        needed = {key: value.removeprefix(ENV) for key, value in given.items() if value.startswith(ENV)}
        return needed | ({"api_key_env": self.api_key_env} if self.api_key_env else {})

    @property
    def able(self) -> frozenset[Capability]:
        if self.capabilities is None:
            return frozenset(Capability) if self.dialect is Dialect.OPENAI else frozenset()
        return frozenset(self.capabilities)


def backend_url_variable(backend: str) -> str:
    """`us-1` is overridden by BEACON_BACKEND_US_1_URL."""
    return f"BEACON_BACKEND_{re.sub('[^A-Z0-9]', '_', backend.upper())}_URL"


def missing_variables(backends: Mapping[str, BackendConfig], environ: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that is needed and not set."""
    return [
        f"backends.{name}.{key} needs the environment variable {variable}, which is not set"
        for name, backend in backends.items()
        for key, variable in backend.variables().items()
        if not environ.get(variable)
    ]


class ModelKind(StrEnum):
    """`chat` models are listed at `/v1/models`."""

    CHAT = "chat"
    OTHER = "other"


class ModelConfig(Section):
    """A model that jobs can request. Without this section, the models are those that the backends serve."""

    kind: ModelKind | None = Field(
        default=None, description="Default: chat if a backend of dialect openai serves it, else other"
    )
    expected_load_s: Seconds = Field(default=5.0, description="Time to load it, until it is measured")
    expected_run_s: Seconds = Field(default=5.0, description="Time of a run, until it is measured")
    load_timeout_s: PositiveSeconds | None = Field(
        default=None, description="Replaces `load_timeout_s` of [router]"
    )
    run_timeout_s: PositiveSeconds | None = Field(
        default=None, description="Replaces `run_timeout_s` of [router]"
    )
    paused: bool = Field(default=False, description="Requests are accepted and wait; none is started")
    limit: Count | None = Field(default=None, description="Concurrent runs in all regions")
    exclusive: bool = Field(default=False, description="One run at a time per region")
    max_duration_s: PositiveSeconds | None = Field(
        default=None, description="Longest duration that a job may ask for"
    )
    input_schema: InputSchema | None = Field(
        default=None,
        description="JSON Schema (2020-12) that inputs must satisfy: a table, or the path of a JSON file. "
        "Default: with a workflow, the schema of its inputs",
    )
    workflow: WorkflowConfig | None = Field(
        default=None, description="The workflow that backends of the dialect `comfyui` run as this model"
    )
    size: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="The field of `params` or `input` with the size of a request, on which the run time "
        "depends",
    )

    @property
    def schema_of_inputs(self) -> dict[str, Any] | None:
        """`input_schema`, or the schema of the workflow's inputs."""
        if self.input_schema is None and self.workflow is not None:
            return self.workflow.input_schema()
        return self.input_schema
