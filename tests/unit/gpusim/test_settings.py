"""GpusimSettings: from the environment, with model times from Beacon's configuration underneath."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from beacon_gpusim.core.durations import Constant, Lognormal, ModelDurations, Uniform
from beacon_gpusim.core.faults import Fault, FaultKind
from beacon_gpusim.core.gpu import Gpu
from beacon_gpusim.core.media import DEFAULT_MEDIA, Delivery, MediaKind, MediaSpec
from beacon_gpusim.settings import GpusimSettings
from beacon_gpusim.wiring import GpuFactory

SHIPPED = Path("config/beacon.toml")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BEACON_CONFIG", raising=False)


def test_distributions_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSIM_DEFAULT_RUN", '{"kind": "lognormal", "median": 2, "sigma": 0.5}')
    monkeypatch.setenv(
        "GPUSIM_MODELS", '{"flux": {"load": 3, "run": {"kind": "uniform", "low": 1, "high": 2}}}'
    )
    settings = GpusimSettings()
    assert settings.default_durations().run == Lognormal(2.0, 0.5)
    assert settings.model_durations() == {"flux": ModelDurations(Constant(3.0), Uniform(1.0, 2.0))}


def test_configured_times_are_overridden_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("BEACON_CONFIG", str(request.config.rootpath / SHIPPED))
    monkeypatch.setenv("GPUSIM_MODELS", '{"flux": {"run": 9}}')
    times = GpusimSettings().model_durations()
    assert times["flux"] == ModelDurations(Constant(2.0), Constant(9.0))
    assert times["llama3.2-1b"] == ModelDurations(Constant(0.4), Constant(0.15))


def test_jitter_spreads_the_configured_times(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("BEACON_CONFIG", str(request.config.rootpath / SHIPPED))
    monkeypatch.setenv("GPUSIM_JITTER", "0.3")
    assert GpusimSettings().model_durations()["flux"].run == Lognormal(1.5, 0.3)


def test_times_depend_on_the_seed_and_not_on_fault_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GPUSIM_SEED", "7")
    monkeypatch.setenv("GPUSIM_DEFAULT_RUN", '{"kind": "uniform", "low": 0, "high": 9}')

    def times_of(gpu: Gpu) -> list[float]:
        spoiled = [gpu.faults.decide("m") for _ in range(5)]
        assert len(spoiled) == 5
        return [gpu.durations.run_s("m") for _ in range(5)]

    plain, spoiled = GpuFactory(GpusimSettings())(), GpuFactory(GpusimSettings())()
    spoiled.faults.add(Fault(FaultKind.ERROR, probability=0.5))
    first = times_of(plain)
    assert first == times_of(spoiled)
    monkeypatch.setenv("GPUSIM_SEED", "8")
    assert first != times_of(GpuFactory(GpusimSettings())())


def test_media_of_the_environment_replaces_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "GPUSIM_MODELS",
        '{"artist": {"media": {"kind": "image", "delivery": "url", "min_bytes": 9}}, "flux": {"run": 1}}',
    )
    media = GpuFactory(GpusimSettings())().media
    assert media["artist"] == MediaSpec(MediaKind.IMAGE, Delivery.URL, 9)
    assert media["flux"] == DEFAULT_MEDIA["flux"]
    assert "llama3.2-1b" not in media


def test_call_numbers_go_on_after_a_reset() -> None:
    make = GpuFactory(GpusimSettings())
    numbers = [make().arrive(request_id="r", dialect="modal", model="m", now=0.0)[0].seq for _ in range(3)]
    assert numbers == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GPUSIM_SLOTS", "-1"),
        ("GPUSIM_PORT", "70000"),
        ("GPUSIM_TIME_SCALE", "-0.5"),
        ("GPUSIM_REGION", " "),
        ("GPUSIM_DEFAULT_RUN", '{"kind": "uniform", "low": 3, "high": 2}'),
        ("GPUSIM_DEFAULT_LOAD", '{"kind": "gamma"}'),
        ("GPUSIM_MODELS", '{"flux": {"runn": 2}}'),
        ("GPUSIM_MODELS", '{"flux": {"media": {"kind": "film"}}}'),
        ("GPUSIM_PROXY_TIMEOUT_S", "0"),
    ],
)
def test_a_bad_setting_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError, match=name.removeprefix("GPUSIM_").lower()):
        GpusimSettings()
