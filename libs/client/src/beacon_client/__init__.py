"""Typed client of the runner, and the beacon command line."""

from beacon_client.errors import BeaconError, BeaconUnreachable
from beacon_client.runner import RunnerClient
from beacon_client.sync import Beacon

__all__ = ["Beacon", "BeaconError", "BeaconUnreachable", "RunnerClient"]
