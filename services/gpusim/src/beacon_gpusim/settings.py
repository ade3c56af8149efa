"""Settings from the environment (GPUSIM_*), with model times from Beacon's own configuration."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from beacon_config import load_config
from beacon_gpusim.core.durations import Constant, Distribution, Lognormal, ModelDurations
from beacon_gpusim.core.media import DEFAULT_MEDIA, MediaSpec
from beacon_gpusim.specs import DistributionSpec, RegionName, Seconds, SimulatedModelSpec, distribution


class GpusimSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="GPUSIM_", extra="ignore", frozen=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535, description="0: any free one; see ready_file")] = 8201
    region: RegionName = "LOCAL"
    slots: Annotated[int, Field(ge=0, le=1_000_000)] = 4
    loaded_models: Annotated[int, Field(ge=1, le=1_000)] = 1
    seed: int | None = None
    time_scale: Annotated[float, Field(ge=0, le=1_000)] = 1.0
    default_load: DistributionSpec = 0.5
    default_run: DistributionSpec = 0.2
    models: dict[str, SimulatedModelSpec] = Field(default_factory=dict)
    jitter: Annotated[
        float, Field(ge=0, le=3, description="Sigma around the times of Beacon's configuration")
    ] = 0.0
    unknown_models: Literal["serve", "refuse"] = "serve"
    proxy_timeout_s: Annotated[Seconds, Field(gt=0)] = 150.0
    body_bytes: Annotated[int, Field(ge=1)] = 16 * 1024 * 1024
    ledger_size: Annotated[int, Field(ge=1)] = 100_000
    ledger_file: Path | None = None
    ready_file: Annotated[
        Path | None, Field(description="The base address is written here once it serves")
    ] = None
    control: Literal["loopback", "any", "off"] = "loopback"
    log_format: Literal["console", "json"] = "console"
    log_level: str = "info"
    stop_grace_s: Seconds = 1.0
    beacon_config: Annotated[Path | None, Field(validation_alias="BEACON_CONFIG")] = None

    def default_durations(self) -> ModelDurations:
        return ModelDurations(load=distribution(self.default_load), run=distribution(self.default_run))

    def model_durations(self) -> dict[str, ModelDurations]:
        """Expected durations of the models in Beacon's configuration, overridden by GPUSIM_MODELS."""
        times = self._expected_durations()
        for model, spec in self.models.items():
            times[model] = spec.over(times.get(model, self.default_durations()))
        return times

    def media(self) -> dict[str, MediaSpec]:
        """The models that return files, by default and by GPUSIM_MODELS."""
        given = {name: spec.media.to_domain() for name, spec in self.models.items() if spec.media is not None}
        return {**DEFAULT_MEDIA, **given}

    def _expected_durations(self) -> dict[str, ModelDurations]:
        if self.beacon_config is None:
            return {}
        config = load_config(self.beacon_config, os.environ)
        return {
            str(name): ModelDurations(self._around(model.expected_load_s), self._around(model.expected_run_s))
            for name, model in config.models.items()
        }

    def _around(self, seconds: float) -> Distribution:
        return Lognormal(seconds, self.jitter) if self.jitter else Constant(seconds)
