"""The configuration file: its models, its loader, its checks."""

from beacon_config.loader import ConfigError, load_config
from beacon_config.root import BeaconConfig

__all__ = ["BeaconConfig", "ConfigError", "load_config"]
