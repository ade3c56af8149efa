"""The generated reference of the configuration."""

from pathlib import Path

from beacon_config import load_config
from beacon_config.reference import markdown, sections

CONFIG = Path(__file__).parents[3] / "config"


def test_every_key_has_a_meaning() -> None:
    missing = [
        f"{section.name}.{key.name}" for section in sections() for key in section.keys if not key.meaning
    ]
    assert missing == []
    assert all(section.meaning for section in sections())


def test_every_section_of_the_shipped_file_is_in_the_reference() -> None:
    names = {section.name.split(".")[0].removesuffix("[]") for section in sections()}
    shipped = load_config(CONFIG / "beacon.toml", {})
    assert names == set(type(shipped).model_fields)
    for key in ("health_url", "api_key_env", "loaded_models", "strict", "concurrency"):
        assert f"| `{key}` |" in markdown()


def test_the_minimal_file_needs_no_more_than_a_backend() -> None:
    path = CONFIG / "minimal.toml"
    lines = [
        line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
    ]
    config = load_config(path, {})
    assert len(lines) <= 12
    assert (list(config.models), list(config.regions), len(config.tiers)) == (["my-model"], ["LOCAL"], 5)
    assert not config.backends["gpu"].simulated
