"""The configuration: its models, its loader, its checks."""

from beacon_config.live import Derived, LiveConfig
from beacon_config.loader import ConfigError, load_config, parse_document, read_document
from beacon_config.root import BeaconConfig

__all__ = [
    "BeaconConfig",
    "ConfigError",
    "Derived",
    "LiveConfig",
    "load_config",
    "parse_document",
    "read_document",
]
