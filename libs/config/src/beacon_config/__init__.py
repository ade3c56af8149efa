"""The configuration file: its models, its loader, its checks."""

from beacon_config.loading import ConfigError, load_config
from beacon_config.root import BeaconConfig

__all__ = ["BeaconConfig", "ConfigError", "load_config"]
